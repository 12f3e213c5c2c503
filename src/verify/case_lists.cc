#include "verify/case_lists.h"

#include <algorithm>
#include <array>

#include "manifold/list.h"
#include "verify/pairwise.h"
#include "verify/random.h"

namespace mhc::verify {
namespace {

constexpr DType kDTypeLevels[] = {DType::kBF16, DType::kF32, DType::kF16, DType::kF64};
template <class... Ms>
constexpr std::array<int32_t, sizeof...(Ms)> ids_of(TypeList<Ms...>) {
  return {Ms::id...};
}
constexpr auto kManifoldLevels = ids_of(Manifolds{});
constexpr int64_t kSmallStreams[] = {4, 1, 2, 3, 5, 8, 6, 7};
constexpr int64_t kSmallTokens[] = {3, 1, 5, 17, 2, 7};
constexpr int64_t kSmallEmbeddings[] = {33, 1, 16, 7, 32, 17, 15, 8};

constexpr uint64_t kLeastCases = 1500;

template <class T, size_t kCount>
T round_robin(const T (&values)[kCount], uint64_t i) {
  return values[i % kCount];
}

// Counts through all combinations: digit(k) is the next factor's level, all factors together
// `size()`.
class Digits {
 public:
  explicit Digits(uint64_t number) : rest_(number) {}
  uint64_t next(uint64_t levels) {
    const uint64_t digit = rest_ % levels;
    rest_ /= levels;
    size_ *= levels;
    return digit;
  }
  bool flag() { return next(2) != 0; }
  uint64_t size() const { return size_; }

 private:
  uint64_t rest_;
  uint64_t size_ = 1;
};

GatePrecision gate_precision(bool activation) {
  return activation ? GatePrecision::kActivation : GatePrecision::kFloat32;
}
Precision precision(bool bf16) { return bf16 ? Precision::kBFloat16 : Precision::kFloat32; }

bool uses_params(Op op) {
  return op == Op::kPre || op == Op::kPreBackward || op == Op::kCoefficients ||
         op == Op::kCoefficientsBackward;
}

// Options of the spec and types.
void set_spec(Digits* d, Case* c) {
  Spec& s = c->spec;
  c->dtype = kDTypeLevels[d->next(4)];
  if (uses_params(c->op)) {
    c->param_dtype = d->flag() ? DType::kBF16 : DType::kF32;
    s.manifold = kManifoldLevels[d->next(kManifoldLevels.size())];
    s.norm_form = d->flag() ? NormForm::kOutside : NormForm::kInside;
    s.matrix_order = d->flag() ? MatrixOrder::kOutputInput : MatrixOrder::kInputOutput;
  }
  if (c->op == Op::kPre || c->op == Op::kPreBackward) {
    c->norm_weight = d->flag();
    s.phi_precision = precision(d->flag());
    s.h_pre_precision = gate_precision(d->flag());
  }
  if (c->op == Op::kPre) c->packed = d->flag();
  if (c->op == Op::kPreBackward || c->op == Op::kCoefficientsBackward)
    s.gradient_precision = precision(d->flag());
  if (c->op == Op::kCollapse || c->op == Op::kSpread) s.h_pre_precision = gate_precision(d->flag());
  if (c->op == Op::kPost || c->op == Op::kPostBackward)
    s.h_post_precision = gate_precision(d->flag());
  if (c->op == Op::kPost || c->op == Op::kPostBackward || c->op == Op::kPreBackward) {
    s.h_res_precision = gate_precision(d->flag());
  }
}

// Which outputs: all of them, one alone, or one missing.
uint32_t output_mask(uint64_t digit, int32_t outputs) {
  if (digit == 0) return ~0u;
  const uint32_t one = 1u << ((digit - 1) / 2 % static_cast<uint64_t>(outputs));
  return digit % 2 == 1 ? one : ~one;
}

int32_t output_count(Op op) {
  constexpr int32_t kCount[kOps] = {1, 4, 1, 2, 8, 5, 5, 4};
  return kCount[static_cast<int32_t>(op)];
}

// Options of the call.
void set_call(Digits* d, Case* c) {
  const int32_t outputs = output_count(c->op);
  if (outputs > 1)
    c->outputs = output_mask(d->next(static_cast<uint64_t>(2 * outputs + 1)), outputs);
  switch (c->op) {
    case Op::kPost:
      c->in_place = d->flag();
      break;
    case Op::kPostBackward:
      c->in_place = d->flag();
      c->broadcast = d->flag();
      c->lazy = d->flag();
      break;
    case Op::kCollapse:
    case Op::kSpread:
      c->in_place = d->flag();
      c->broadcast = d->flag();
      c->weightless = d->flag();
      break;
    case Op::kPreBackward:
      c->in_place = d->flag();
      c->broadcast = d->flag();
      c->lazy = d->flag();
      c->accumulate = d->flag();
      c->narrow_gradients = d->flag();
      c->no_cotangents = d->flag();
      [[fallthrough]];
    case Op::kPre: {
      const uint64_t mode = d->next(4);
      c->kind = mode == 2 ? GateKind::kHead : GateKind::kSite;
      c->partial = mode == 3;
      break;
    }
    case Op::kCoefficientsBackward:
      c->accumulate = d->flag();
      [[fallthrough]];
    case Op::kCoefficients:
      c->kind = d->flag() ? GateKind::kHead : GateKind::kSite;
      break;
  }
}

// What goes round: sizes, placement, number of iterations.
void set_rest(uint64_t i, Case* c) {
  Random random(i * 2654435761u + 17);
  const auto pick = [&random](auto& values) { return round_robin(values, random.bits() >> 8); };
  c->seed = random.bits() >> 16;
  c->dims = {pick(kSmallTokens), pick(kSmallStreams), pick(kSmallEmbeddings)};
  const int64_t most = find_manifold(c->spec.manifold)->max_streams;
  if (random.below(12) == 0 && c->spec.manifold != Sinkhorn::id) c->dims.streams = 16;
  if (c->dims.streams > most) c->dims.streams = 1 + random.below(most);
  c->placement = static_cast<Placement>(random.below(3));
  if (random.below(2) == 0) c->padding = {random.below(5), random.below(3)};
  constexpr int32_t kIterations[] = {20, 1, 2, 3};
  c->spec.manifold_options.iterations = pick(kIterations);
  constexpr double kEps[] = {1e-6, 0.1, 1e-2};
  c->spec.manifold_options.eps = pick(kEps);
  c->spec.norm_eps = pick(kEps);
  c->spec.pre_eps = random.below(2) == 0 ? 1e-6 : 0.0625;
  c->spec.post_mult = random.below(2) == 0 ? 2 : 1;
  c->gate_scale = random.below(2) == 0 ? 1 : 3;
  c->peak = random.below(4) == 0 ? 15 : 0;
}

uint64_t combinations(Op op, void (*set)(Digits*, Case*)) {
  Case c;
  c.op = op;
  Digits digits(0);
  set(&digits, &c);
  return digits.size();
}

// What one option takes from another: a case that would be refused or the same as another.
bool sensible(const Case& c) {
  if (c.narrow_gradients && c.accumulate) return false;
  const uint32_t all = (1u << output_count(c.op)) - 1;
  uint32_t possible = all;
  if (c.op == Op::kPre) {
    if (c.partial) possible = 0xc0;
    if (c.kind == GateKind::kHead) possible = 0xcf;
  }
  if (c.op == Op::kPreBackward) possible = (c.partial ? 0x3u : 0xfu) | (c.norm_weight ? 0x10u : 0u);
  if (c.op == Op::kPostBackward && c.lazy) possible = 0x7;
  if (c.op == Op::kCoefficients && c.kind == GateKind::kHead) possible = 0x7;
  return (c.outputs & possible) != 0;
}

}  // namespace

double work_of(const Case& c) {
  Spec spec = c.spec;
  spec.streams = c.dims.streams;
  const double m = static_cast<double>(gate_layout(spec, c.kind).coefficients());
  const double size = static_cast<double>(c.dims.tokens) * static_cast<double>(c.dims.flat());
  if (!uses_params(c.op)) return size * static_cast<double>(c.dims.streams);
  // One reverse sweep over the gates' operations per eight results.
  const double n = static_cast<double>(c.dims.streams);
  const double steps = c.spec.manifold == Sinkhorn::id ? 40 * n * n * 4 : m * n;
  const double gates = static_cast<double>(c.dims.tokens) * steps * m * 4;
  return size * m * (c.op == Op::kPreBackward ? 3 : 1) + gates;
}

std::vector<Case> option_cases(Op op, int64_t thin) {
  const uint64_t specs = combinations(op, set_spec), calls = combinations(op, set_call);
  const bool product = specs * calls <= 8192;
  const uint64_t once = product ? specs * calls : specs + calls;
  const uint64_t count =
      once * std::max<uint64_t>(1, kLeastCases / once);  // again with other sizes
  std::vector<Case> cases;
  for (uint64_t i = 0; i < count; i += static_cast<uint64_t>(thin)) {
    Random random(i + 1);
    Case c;
    c.op = op;
    const uint64_t k = i % once;
    const uint64_t spec = product ? k % specs : k < specs ? k : random.bits() % specs;
    const uint64_t call = product ? k / specs : k < specs ? random.bits() % calls : k - specs;
    Digits spec_digits(spec), call_digits(call);
    set_spec(&spec_digits, &c);
    set_call(&call_digits, &c);
    set_rest(i, &c);
    if (!sensible(c)) continue;
    cases.push_back(c);
  }
  return cases;
}

std::vector<Case> size_cases(Op op, double work) {
  constexpr int64_t kTokens[] = {0, 1, 3, 5, 7, 21, 31, 33, 63, 65, 127, 129};
  constexpr int64_t kEmbeddings[] = {1, 7, 15, 17, 33, 512, 513, 1030, 4097, 7168};
  constexpr int64_t kStreams[] = {1, 2, 3, 4, 5, 6, 7, 8, 16};
  const auto make = [&](const Levels& row) {
    Case c;
    c.op = op;
    const auto level = [&row](size_t f) { return static_cast<size_t>(row[f]); };
    c.dims = {kTokens[level(0)], kStreams[level(2)], kEmbeddings[level(1)]};
    c.dtype = kDTypeLevels[level(3)];
    c.param_dtype = row[4] == 0 ? DType::kF32 : DType::kBF16;
    c.spec.manifold = kManifoldLevels[level(5)];
    c.placement = static_cast<Placement>(row[6]);
    if (row[7] != 0) c.padding = {row[7], 2 * row[7]};
    c.norm_weight = row[8] != 0;
    c.spec.phi_precision = precision(row[9] != 0);
    c.spec.gradient_precision = precision(row[10] != 0);
    c.in_place = row[11] != 0;
    c.lazy = row[12] != 0;
    c.accumulate = row[13] != 0;
    c.packed = row[14] != 0;
    Random random(seed_of(describe(c).c_str()));
    c.seed = random.bits() >> 16;
    return c;
  };
  const auto valid = [&](const Levels& row) {
    const Case c = make(row);
    const ManifoldInfo* manifold = find_manifold(c.spec.manifold);
    return c.dims.streams <= manifold->max_streams && work_of(c) <= work && sensible(c);
  };
  std::vector<Case> cases;
  const int32_t manifolds = uses_params(op) ? static_cast<int32_t>(kManifoldLevels.size()) : 1;
  const std::vector<int32_t> levels{12, 10, 9, 4, 2, manifolds, 3, 3, 2, 2, 2, 2, 2, 2, 2};
  for (const Levels& row : pairwise_cover(levels, seed_of(name_of(op)), valid))
    cases.push_back(make(row));
  if (op != Op::kPreBackward) return cases;
  // Several blocks of tokens for each group; the last one, never left out in bf16, has two waves.
  for (const Dims& dims : {Dims{257, 4, 33}, Dims{385, 4, 129}, Dims{530, 2, 545}}) {
    for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32}) {
      const bool waves = dims.embedding == 545;
      Case c;
      c.op = op;
      c.dims = dims;
      c.dtype = dtype;
      c.norm_weight = true;
      c.lazy = dtype != DType::kF16;
      if (waves) {
        c.spec.manifold = Unconstrained::id;  // little work
        c.spec.gradient_precision = Precision::kBFloat16;
      }
      c.seed = seed_of(describe(c).c_str()) >> 16;
      if (work_of(c) <= work || (waves && dtype == DType::kBF16)) cases.push_back(c);
    }
  }
  return cases;
}

}  // namespace mhc::verify
