// Prints one of the tables that the documentation holds, made from what the library itself knows:
//   docs_tables NAME

#include <cstdio>
#include <string>
#include <vector>

#include "kernels/collapse/collapse.h"
#include "kernels/post/post.h"
#include "kernels/post_backward/post_backward.h"
#include "kernels/pre/pre.h"
#include "kernels/pre_backward/pre_backward.h"
#include "kernels/spread/spread.h"
#include "layer/kernel_list.h"
#include "manifold/presets.h"

namespace {

using namespace mhc;
using Row = std::vector<std::string>;

void print_row(const Row& cells) {
  for (const std::string& cell : cells) std::printf("| %s ", cell.c_str());
  std::printf("|\n");
}

void print_head(const Row& cells) {
  print_row(cells);
  for (size_t i = 0; i < cells.size(); ++i) std::printf("|---");
  std::printf("|\n");
}

std::string code(const char* text) {
  std::string quoted = "`";
  quoted += text;
  quoted += "`";
  return quoted;
}
std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.12g", value);
  return text;
}

// Operation by instruction set: the types that have a kernel of their own.
void kernels() {
  Row head{"kernel"};
  for (int32_t i = 0; i < kIsas; ++i) head.push_back(code(name_of(static_cast<Isa>(i))));
  print_head(head);
  std::vector<std::string> operations;
  for (int32_t i = 0; i < kernel_count(); ++i) {
    const std::string operation = kernel_at(i).operation;
    if (operations.empty() || operations.back() != operation) operations.push_back(operation);
  }
  for (const std::string& operation : operations) {
    Row row{code(operation.c_str())};
    for (int32_t isa = 0; isa < kIsas; ++isa) {
      std::string types;
      for (int32_t i = 0; i < kernel_count(); ++i) {
        const KernelRow k = kernel_at(i);
        if (k.operation != operation || k.isa != static_cast<Isa>(isa)) continue;
        if (!types.empty()) types += " ";
        types += name_of(k.dtype);
      }
      row.push_back(types);
    }
    print_row(row);
  }
}

void manifolds() {
  print_head({"name", "n", "L", "L at n = 4", "sums that are one", "map"});
  for (int32_t i = 0; manifold_at(i) != nullptr; ++i) {
    const ManifoldInfo& m = *manifold_at(i);
    const char* logits = m.logits(3) == 0   ? "0"
                         : m.logits(3) == 9 ? "n^2"
                         : m.logits(3) == 6 ? "n!"
                                            : "?";
    const char* sums = m.marginals.rows && m.marginals.columns ? "rows, columns"
                       : m.marginals.columns                   ? "columns"
                       : m.marginals.rows                      ? "rows"
                                                               : "none";
    print_row({code(m.name), "1 to " + std::to_string(m.max_streams), logits,
               number(static_cast<double>(m.logits(4))), sums, m.summary});
  }
}

const char* of(Precision p) { return p == Precision::kFloat32 ? "float32" : "bfloat16"; }
const char* of(GatePrecision p) { return p == GatePrecision::kFloat32 ? "float32" : "activation"; }

// One preset per column.
void presets() {
  Row head{"field"};
  std::vector<Row> rows = {{"streams"},
                           {"manifold"},
                           {"iterations"},
                           {"eps"},
                           {"form"},
                           {"matrix_order"},
                           {"norm_eps"},
                           {"norm_form"},
                           {"pre_eps"},
                           {"post_mult"},
                           {"phi_precision"},
                           {"gradient_precision"},
                           {"h_pre_precision"},
                           {"h_post_precision"},
                           {"h_res_precision"}};
  for (Row& row : rows) row[0] = code(row[0].c_str());
  for (int32_t i = 0; preset_at(i) != nullptr; ++i) {
    const Spec& s = preset_at(i)->spec;
    head.push_back(code(preset_at(i)->name));
    const bool sinkhorn = std::string(find_manifold(s.manifold)->name) == "sinkhorn";
    const Row column = {
        number(static_cast<double>(s.streams)),
        find_manifold(s.manifold)->name,
        sinkhorn ? number(s.manifold_options.iterations) : "-",
        sinkhorn ? number(s.manifold_options.eps) : "-",
        sinkhorn ? (s.manifold_options.form == 0 ? "softmax" : "?") : "-",
        s.matrix_order == MatrixOrder::kInputOutput ? "input_output" : "output_input",
        number(s.norm_eps),
        s.norm_form == NormForm::kInside ? "inside" : "outside",
        number(s.pre_eps),
        number(s.post_mult),
        of(s.phi_precision),
        of(s.gradient_precision),
        of(s.h_pre_precision),
        of(s.h_post_precision),
        of(s.h_res_precision)};
    for (size_t k = 0; k < rows.size(); ++k) rows[k].push_back(column[k]);
  }
  print_head(head);
  for (const Row& row : rows) print_row(row);
}

Spec spec_of(const char* manifold) {
  Spec spec;
  spec.manifold = find_manifold(manifold)->id;
  return spec;
}

// Bytes of f32 values per token that backward needs beside x and layer_output.
void saved() {
  print_head({"manifold", "n", "m", "z, inv_rms", "h_post, h_res"});
  for (int32_t i = 0; manifold_at(i) != nullptr; ++i) {
    for (const int64_t n : {2, 4, 8}) {
      if (n > manifold_at(i)->max_streams) continue;
      Spec spec = spec_of(manifold_at(i)->name);
      spec.streams = n;
      const int64_t m = gate_layout(spec, GateKind::kSite).coefficients();
      const auto text = [](int64_t v) { return std::to_string(v); };
      print_row(
          {code(manifold_at(i)->name), text(n), text(m), text(4 * (m + 1)), text(4 * (n + n * n))});
    }
  }
}

// Bytes and flops per token in units of D, from the functions that the benchmarks use.
void costs() {
  static constexpr Dims kDims{1, 4, 3072};
  static constexpr DType kType = DType::kBF16;
  print_head(
      {"operation", "bytes read / D", "bytes written / D", "f32 flops / D", "bf16 dot flops / D"});
  const auto row = [](const std::string& name, const Cost& c) {
    const auto per_feature = [](double v) {
      char text[32];
      std::snprintf(text, sizeof(text), "%.2f", v / static_cast<double>(kDims.embedding));
      return std::string(text);
    };
    print_row({name, per_feature(c.bytes_read), per_feature(c.bytes_written),
               per_feature(c.flops_f32), per_feature(c.flops_bf16_dot)});
  };
  Spec rounded = spec_of("sinkhorn");
  rounded.phi_precision = Precision::kBFloat16;
  const auto pre = [](const Spec& spec, GateKind kind, Isa isa) {
    return pre_cost(spec, kind, kDims, kType, isa);
  };
  row("`pre`, f32 multiply-adds", pre(spec_of("sinkhorn"), GateKind::kSite, Isa::kAvx512));
  row("`pre`, bf16 dot, phi in two parts",
      pre(spec_of("sinkhorn"), GateKind::kSite, Isa::kAvx512Bf16));
  row("`pre`, bf16 dot, phi rounded", pre(rounded, GateKind::kSite, Isa::kAvx512Bf16));
  row("`pre`, permutation, f32 multiply-adds",
      pre(spec_of("permutation"), GateKind::kSite, Isa::kAvx512));
  row("`head`, f32 multiply-adds", pre(spec_of("sinkhorn"), GateKind::kHead, Isa::kAvx512));
  row("`post`", post_cost(kDims, kType));
  row("`post_backward`, lazy", post_backward_cost(kDims, kType, false));
  row("`post_backward`, eager", post_backward_cost(kDims, kType, true));
  const auto back = [](const char* manifold) {
    return pre_backward_cost(spec_of(manifold), GateKind::kSite, kDims, kType, Isa::kAvx512);
  };
  row("`pre_backward`, lazy", back("sinkhorn"));
  row("`pre_backward`, lazy, permutation", back("permutation"));
  row("`apply_pre`, `reduce`", collapse_cost(kDims, kType));
  row("`expand`", spread_cost(kDims, kType, false));
  row("`apply_pre_backward`", spread_cost(kDims, kType, true));
}

struct Table {
  const char* name;
  void (*print)();
};
constexpr Table kTables[] = {{"kernels", kernels},
                             {"manifolds", manifolds},
                             {"presets", presets},
                             {"saved", saved},
                             {"costs", costs}};

}  // namespace

int main(int argc, char** argv) {
  for (const Table& table : kTables) {
    if (argc == 2 && std::string(argv[1]) == table.name) {
      table.print();
      return 0;
    }
  }
  std::fprintf(stderr, "usage: docs_tables");
  for (const Table& table : kTables) std::fprintf(stderr, " %s", table.name);
  std::fprintf(stderr, "\n");
  return 2;
}
