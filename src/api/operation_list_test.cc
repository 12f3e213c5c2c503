#include "api/operation_list_test.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace mhc::api {
namespace {

constexpr unsigned char kPoison = 0xa5;
constexpr size_t kSlack = 8192;  // behind each tensor: room for a shifted view of any other

enum Role { kIn = 0, kOut = 1, kOptional = 2, kDecisive = 4 };

int64_t element_bytes(mhc_dtype t) { return t == MHC_F64 ? 8 : t == MHC_F32 ? 4 : 2; }

// Builds one operation; G, P and A are the types of gates, parameters and activations.
class Builder {
 public:
  Builder(const std::string& name, const Sizes& sizes, bool head)
      : sizes_(sizes), op_(new Operation) {
    op_->name = name;
    mhc_spec& spec = op_->spec_value;
    spec.size = sizeof(mhc_spec);
    mhc_spec_preset(sizes.preset, &spec);
    spec.streams = sizes.streams;
    mhc_spec_coefficients(&spec, head ? MHC_HEAD : MHC_SITE, &m_);
    groups_ = head ? 1 : 3;
    head_ = head;
  }

  template <class C>
  C* bind(mhc_status (*function)(const C*, const mhc_runtime*)) {
    auto args = std::make_shared<C>();
    std::memset(static_cast<void*>(args.get()), 0, sizeof(C));
    args->size = sizeof(C);
    op_->struct_size = &args->size;
    if constexpr (requires { args->spec; }) {
      args->spec = &op_->spec_value;
      op_->spec = &args->spec;
    }
    if constexpr (requires { args->accumulate; }) op_->accumulate = &args->accumulate;
    if constexpr (requires { args->gradients; }) op_->gradients = &args->gradients;
    if constexpr (requires { args->workspace; }) op_->workspace = &args->workspace;
    if constexpr (requires { args->kind; }) op_->kind = &args->kind;
    if constexpr (requires { args->mode; }) op_->mode = &args->mode;
    if constexpr (requires { args->embedding_total; })
      op_->embedding_total = &args->embedding_total;
    if constexpr (requires { args->streams; }) {
      args->streams = sizes_.streams;
      op_->streams = &args->streams;
    }
    C* raw = args.get();
    op_->args = args;
    op_->call = [raw, function](const mhc_runtime* runtime) { return function(raw, runtime); };
    op_->call_without_args = [function](const mhc_runtime* runtime) {
      return function(nullptr, runtime);
    };
    return raw;
  }

  Builder& activation(const char* name, mhc_tensor* t, const char* letters, int role) {
    return add(name, t, letters, sizes_.activation, role, true);
  }
  Builder& gate(const char* name, mhc_tensor* t, const char* letters, int role) {
    return add(name, t, letters, gate_type(), role, false);
  }
  Builder& parameter(const char* name, mhc_tensor* t, const char* letters, int role = kIn) {
    return add(name, t, letters, gate_type(), role, false);
  }
  Builder& params(mhc_params* p) {
    parameter("phi", &p->phi, "mnD")
        .parameter("alpha", &p->alpha, "g")
        .parameter("bias", &p->bias, "m");
    return parameter("norm_weight", &p->norm_weight, "nD", kOptional);
  }
  Builder& gradients(mhc_param_gradients* g) {
    parameter("d_phi", &g->d_phi, "mnD", kOut | kOptional);
    parameter("d_alpha", &g->d_alpha, "g", kOut | kOptional);
    parameter("d_bias", &g->d_bias, "m", kOut | kOptional);
    return parameter("d_norm_weight", &g->d_norm_weight, "nD", kOut | kOptional);
  }
  Builder& alias(const char* output, const char* input) {
    op_->aliases.emplace_back(output, input);
    return *this;
  }
  Builder& workspace(mhc_operation operation) {
    mhc_problem p{};
    p.size = sizeof(p);
    p.spec = &op_->spec_value;
    p.kind = head_ ? MHC_HEAD : MHC_SITE;
    p.tokens = sizes_.tokens;
    p.embedding = sizes_.embedding;
    p.activation = sizes_.activation;
    size_t bytes = 0;
    mhc_workspace_bytes(operation, &p, nullptr, &bytes);
    op_->workspace->data = bytes == 0 ? nullptr : allocate(bytes);
    op_->workspace->bytes = bytes;
    return *this;
  }

  std::unique_ptr<Operation> take() {
    op_->poison_outputs();
    return std::move(op_);
  }

 private:
  mhc_dtype gate_type() const { return sizes_.activation == MHC_F64 ? MHC_F64 : MHC_F32; }

  int64_t extent(char letter) const {
    switch (letter) {
      case 'T':
        return sizes_.tokens;
      case 'n':
        return sizes_.streams;
      case 'D':
        return sizes_.embedding;
      case 'm':
        return m_;
      default:
        return groups_;
    }
  }

  void* allocate(size_t bytes) {
    op_->memory.push_back(std::make_unique<unsigned char[]>(bytes + kSlack));  // zeros
    return op_->memory.back().get();
  }

  Builder& add(const char* name, mhc_tensor* t, const std::string& letters, mhc_dtype type,
               int role, bool rows) {
    int64_t shape[3] = {0, 0, 0};
    int64_t elements = 1;
    for (size_t i = 0; i < letters.size(); ++i) elements *= shape[i] = extent(letters[i]);
    void* data =
        elements == 0 ? nullptr : allocate(static_cast<size_t>(elements * element_bytes(type)));
    *t = letters.size() == 1   ? mhc_tensor_1d(data, type, shape[0])
         : letters.size() == 2 ? mhc_tensor_2d(data, type, shape[0], shape[1])
                               : mhc_tensor_3d(data, type, shape[0], shape[1], shape[2]);
    op_->arguments.push_back({name, t, letters, (role & kOut) != 0, (role & kOptional) != 0, rows,
                              (role & kDecisive) != 0, static_cast<unsigned char*>(data),
                              elements * element_bytes(type)});
    return *this;
  }

  Sizes sizes_;
  std::unique_ptr<Operation> op_;
  int64_t m_ = 0;
  int64_t groups_ = 3;
  bool head_ = false;
};

using Make = std::function<std::unique_ptr<Operation>(const std::string&, const Sizes&)>;

std::unique_ptr<Operation> make_pre(const std::string& name, const Sizes& s) {
  Builder b(name, s, false);
  auto* a = b.bind(mhc_pre);
  b.activation("x", &a->x, "TnD", kDecisive).params(&a->params);
  b.activation("layer_input", &a->layer_input, "TD", kOut | kOptional);
  b.gate("z", &a->z, "Tm", kOut | kOptional).gate("inv_rms", &a->inv_rms, "T", kOut | kOptional);
  b.gate("h_pre", &a->h_pre, "Tn", kOut | kOptional)
      .gate("h_post", &a->h_post, "Tn", kOut | kOptional);
  return b.gate("h_res", &a->h_res, "Tnn", kOut | kOptional).workspace(MHC_OP_PRE).take();
}

std::unique_ptr<Operation> make_pre_backward(const std::string& name, const Sizes& s) {
  Builder b(name, s, false);
  auto* a = b.bind(mhc_pre_backward);
  b.activation("x", &a->x, "TnD", kDecisive).params(&a->params);
  b.gate("z", &a->z, "Tm", kIn).gate("inv_rms", &a->inv_rms, "T", kIn);
  b.activation("d_layer_input", &a->d_layer_input, "TD", kOptional);
  b.gate("d_h_pre", &a->d_h_pre, "Tn", kOptional).gate("d_h_post", &a->d_h_post, "Tn", kOptional);
  b.gate("d_h_res", &a->d_h_res, "Tnn", kOptional);
  b.activation("d_x_next", &a->d_x_next, "TnD", kOptional);
  b.activation("d_x", &a->d_x, "TnD", kOut | kOptional).gradients(&a->gradients);
  return b.alias("d_x", "d_x_next").workspace(MHC_OP_PRE_BACKWARD).take();
}

std::unique_ptr<Operation> make_post(const std::string& name, const Sizes& s) {
  Builder b(name, s, false);
  auto* a = b.bind(name == "post" ? mhc_post : mhc_apply_post);
  b.activation("x", &a->x, "TnD", kDecisive)
      .activation("layer_output", &a->layer_output, "TD", kIn);
  b.gate("h_post", &a->h_post, "Tn", kIn).gate("h_res", &a->h_res, "Tnn", kIn);
  return b.activation("x_next", &a->x_next, "TnD", kOut).alias("x_next", "x").take();
}

std::unique_ptr<Operation> make_post_backward(const std::string& name, const Sizes& s) {
  Builder b(name, s, false);
  auto* a = b.bind(name == "post_backward" ? mhc_post_backward : mhc_apply_post_backward);
  b.activation("d_x_next", &a->d_x_next, "TnD", kDecisive);
  b.activation("x", &a->x, "TnD", kIn).activation("layer_output", &a->layer_output, "TD", kIn);
  b.gate("h_post", &a->h_post, "Tn", kIn).gate("h_res", &a->h_res, "Tnn", kIn);
  b.activation("d_layer_output", &a->d_layer_output, "TD", kOut | kOptional);
  b.gate("d_h_post", &a->d_h_post, "Tn", kOut | kOptional);
  b.gate("d_h_res", &a->d_h_res, "Tnn", kOut | kOptional);
  b.activation("d_x", &a->d_x, "TnD", kOut | kOptional);
  return b.alias("d_x", "d_x_next").alias("d_layer_output", "layer_output").take();
}

std::unique_ptr<Operation> make_coefficients(const std::string& name, const Sizes& s) {
  Builder b(name, s, false);
  auto* a = b.bind(mhc_coefficients);
  b.activation("x", &a->x, "TnD", kDecisive).params(&a->params);
  b.gate("z", &a->z, "Tm", kOut | kOptional).gate("inv_rms", &a->inv_rms, "T", kOut | kOptional);
  b.gate("h_pre", &a->h_pre, "Tn", kOut | kOptional)
      .gate("h_post", &a->h_post, "Tn", kOut | kOptional);
  return b.gate("h_res", &a->h_res, "Tnn", kOut | kOptional).workspace(MHC_OP_COEFFICIENTS).take();
}

std::unique_ptr<Operation> make_coefficients_backward(const std::string& name, const Sizes& s) {
  Builder b(name, s, false);
  auto* a = b.bind(mhc_coefficients_backward);
  b.activation("x", &a->x, "TnD", kDecisive).params(&a->params);
  b.gate("z", &a->z, "Tm", kIn).gate("inv_rms", &a->inv_rms, "T", kIn);
  b.gate("d_h_pre", &a->d_h_pre, "Tn", kOptional).gate("d_h_post", &a->d_h_post, "Tn", kOptional);
  b.gate("d_h_res", &a->d_h_res, "Tnn", kOptional);
  b.activation("d_x", &a->d_x, "TnD", kOut | kOptional).gradients(&a->gradients);
  return b.workspace(MHC_OP_COEFFICIENTS_BACKWARD).take();
}

std::unique_ptr<Operation> make_project_partial(const std::string& name, const Sizes& s) {
  Builder b(name, s, false);
  auto* a = b.bind(mhc_project_partial);
  b.activation("x", &a->x, "TnD", kDecisive).parameter("phi", &a->phi, "mnD");
  b.parameter("norm_weight", &a->norm_weight, "nD", kOptional);
  b.gate("q", &a->q, "Tm", kOut | kOptional)
      .gate("sum_squares", &a->sum_squares, "T", kOut | kOptional);
  return b.workspace(MHC_OP_PROJECT_PARTIAL).take();
}

std::unique_ptr<Operation> make_project_partial_backward(const std::string& name, const Sizes& s) {
  Builder b(name, s, false);
  auto* a = b.bind(mhc_project_partial_backward);
  b.activation("x", &a->x, "TnD", kDecisive).parameter("phi", &a->phi, "mnD");
  b.parameter("norm_weight", &a->norm_weight, "nD", kOptional);
  b.gate("d_q", &a->d_q, "Tm", kIn).gate("d_sum_squares", &a->d_sum_squares, "T", kOptional);
  b.activation("d_x_post", &a->d_x_post, "TnD", kOptional);
  b.activation("d_x", &a->d_x, "TnD", kOut | kOptional);
  b.parameter("d_phi", &a->d_phi, "mnD", kOut | kOptional);
  b.parameter("d_norm_weight", &a->d_norm_weight, "nD", kOut | kOptional);
  return b.alias("d_x", "d_x_post").workspace(MHC_OP_PROJECT_PARTIAL_BACKWARD).take();
}

std::unique_ptr<Operation> make_from_partials(const std::string& name, const Sizes& s) {
  Builder b(name, s, false);
  auto* a = b.bind(mhc_coefficients_from_partials);
  a->embedding_total = 3 * s.embedding;
  b.gate("q", &a->q, "Tm", kDecisive).gate("sum_squares", &a->sum_squares, "T", kIn);
  b.parameter("alpha", &a->alpha, "g").parameter("bias", &a->bias, "m");
  b.gate("z", &a->z, "Tm", kOut | kOptional).gate("inv_rms", &a->inv_rms, "T", kOut | kOptional);
  b.gate("h_pre", &a->h_pre, "Tn", kOut | kOptional)
      .gate("h_post", &a->h_post, "Tn", kOut | kOptional);
  b.gate("h_res", &a->h_res, "Tnn", kOut | kOptional);
  return b.workspace(MHC_OP_COEFFICIENTS_FROM_PARTIALS).take();
}

std::unique_ptr<Operation> make_from_partials_backward(const std::string& name, const Sizes& s) {
  Builder b(name, s, false);
  auto* a = b.bind(mhc_coefficients_from_partials_backward);
  a->embedding_total = 3 * s.embedding;
  b.gate("z", &a->z, "Tm", kDecisive).gate("inv_rms", &a->inv_rms, "T", kIn);
  b.gate("sum_squares", &a->sum_squares, "T", kOptional);
  b.parameter("alpha", &a->alpha, "g").parameter("bias", &a->bias, "m");
  b.gate("d_h_pre", &a->d_h_pre, "Tn", kOptional).gate("d_h_post", &a->d_h_post, "Tn", kOptional);
  b.gate("d_h_res", &a->d_h_res, "Tnn", kOptional);
  b.gate("d_q", &a->d_q, "Tm", kOut | kOptional);
  b.gate("d_sum_squares", &a->d_sum_squares, "T", kOut | kOptional);
  b.parameter("d_alpha", &a->d_alpha, "g", kOut | kOptional);
  b.parameter("d_bias", &a->d_bias, "m", kOut | kOptional);
  return b.workspace(MHC_OP_COEFFICIENTS_FROM_PARTIALS_BACKWARD).take();
}

std::unique_ptr<Operation> make_apply_pre(const std::string& name, const Sizes& s) {
  Builder b(name, s, false);
  auto* a = b.bind(mhc_apply_pre);
  b.activation("x", &a->x, "TnD", kDecisive).gate("h_pre", &a->h_pre, "Tn", kIn);
  return b.activation("layer_input", &a->layer_input, "TD", kOut).take();
}

std::unique_ptr<Operation> make_apply_pre_backward(const std::string& name, const Sizes& s) {
  Builder b(name, s, false);
  auto* a = b.bind(mhc_apply_pre_backward);
  b.activation("d_layer_input", &a->d_layer_input, "TD", kDecisive);
  b.activation("x", &a->x, "TnD", kIn).gate("h_pre", &a->h_pre, "Tn", kIn);
  b.activation("d_x", &a->d_x, "TnD", kOut | kOptional);
  return b.gate("d_h_pre", &a->d_h_pre, "Tn", kOut | kOptional).alias("d_x", "x").take();
}

std::unique_ptr<Operation> make_head(const std::string& name, const Sizes& s) {
  Builder b(name, s, true);
  auto* a = b.bind(mhc_head);
  b.activation("x", &a->x, "TnD", kDecisive).params(&a->params);
  b.activation("out", &a->out, "TD", kOut | kOptional);
  b.gate("z", &a->z, "Tm", kOut | kOptional).gate("inv_rms", &a->inv_rms, "T", kOut | kOptional);
  return b.gate("h_pre", &a->h_pre, "Tn", kOut | kOptional).workspace(MHC_OP_HEAD).take();
}

std::unique_ptr<Operation> make_head_backward(const std::string& name, const Sizes& s) {
  Builder b(name, s, true);
  auto* a = b.bind(mhc_head_backward);
  b.activation("x", &a->x, "TnD", kDecisive).params(&a->params);
  b.gate("z", &a->z, "Tm", kIn).gate("inv_rms", &a->inv_rms, "T", kIn);
  b.activation("d_out", &a->d_out, "TD", kIn);
  b.activation("d_x", &a->d_x, "TnD", kOut | kOptional).gradients(&a->gradients);
  return b.workspace(MHC_OP_HEAD_BACKWARD).take();
}

std::unique_ptr<Operation> make_expand(const std::string& name, const Sizes& s) {
  Builder b(name, s, false);
  auto* a = b.bind(mhc_expand);
  return b.activation("h", &a->h, "TD", kDecisive).activation("x", &a->x, "TnD", kOut).take();
}

std::unique_ptr<Operation> make_expand_backward(const std::string& name, const Sizes& s) {
  Builder b(name, s, false);
  auto* a = b.bind(mhc_expand_backward);
  return b.activation("d_x", &a->d_x, "TnD", kDecisive)
      .activation("d_h", &a->d_h, "TD", kOut)
      .take();
}

std::unique_ptr<Operation> make_reduce(const std::string& name, const Sizes& s) {
  Builder b(name, s, false);
  auto* a = b.bind(mhc_reduce);
  return b.activation("x", &a->x, "TnD", kDecisive).activation("out", &a->out, "TD", kOut).take();
}

std::unique_ptr<Operation> make_reduce_backward(const std::string& name, const Sizes& s) {
  Builder b(name, s, false);
  auto* a = b.bind(mhc_reduce_backward);
  return b.activation("d_out", &a->d_out, "TD", kDecisive)
      .activation("d_x", &a->d_x, "TnD", kOut)
      .take();
}

const std::map<std::string, Make>& makers() {
  static const std::map<std::string, Make> kMakers = {
      {"pre", make_pre},
      {"pre_backward", make_pre_backward},
      {"post", make_post},
      {"post_backward", make_post_backward},
      {"apply_post", make_post},
      {"apply_post_backward", make_post_backward},
      {"coefficients", make_coefficients},
      {"coefficients_backward", make_coefficients_backward},
      {"project_partial", make_project_partial},
      {"project_partial_backward", make_project_partial_backward},
      {"coefficients_from_partials", make_from_partials},
      {"coefficients_from_partials_backward", make_from_partials_backward},
      {"apply_pre", make_apply_pre},
      {"apply_pre_backward", make_apply_pre_backward},
      {"head", make_head},
      {"head_backward", make_head_backward},
      {"expand", make_expand},
      {"expand_backward", make_expand_backward},
      {"reduce", make_reduce},
      {"reduce_backward", make_reduce_backward},
  };
  return kMakers;
}

}  // namespace

Argument* Operation::find(const std::string& argument) {
  for (Argument& a : arguments) {
    if (a.name == argument) return &a;
  }
  return nullptr;
}

void Operation::poison_outputs() {
  for (const Argument& a : arguments) {
    if (a.output && a.bytes > 0) std::memset(a.memory, kPoison, static_cast<size_t>(a.bytes));
  }
}

bool Operation::outputs_untouched() const {
  for (const Argument& a : arguments) {
    if (!a.output) continue;
    for (int64_t i = 0; i < a.bytes; ++i) {
      if (a.memory[i] != kPoison) return false;
    }
  }
  return true;
}

bool Operation::outputs_written() const {
  for (const Argument& a : arguments) {
    if (!a.output || a.tensor->rank == 0) continue;
    const int64_t step = element_bytes(a.tensor->dtype);
    for (int64_t i = 0; i < a.bytes; i += step) {
      const unsigned char* element = a.memory + i;
      if (std::all_of(element, element + step, [](unsigned char b) { return b == kPoison; }))
        return false;
    }
  }
  return true;
}

std::vector<std::string> operation_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : makers()) names.push_back(name);
  return names;
}

std::unique_ptr<Operation> make_operation(const std::string& name, const Sizes& sizes) {
  return makers().at(name)(name, sizes);
}

}  // namespace mhc::api
