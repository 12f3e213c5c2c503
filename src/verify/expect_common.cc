#include "verify/expect_common.h"

#include <algorithm>

namespace mhc::verify {

double largest_finite(const double* values, int64_t count) {
  double largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double v = std::fabs(values[i]);
    if (v > largest && std::isfinite(v)) largest = v;
  }
  return largest;
}

std::vector<Output> present_outputs(std::initializer_list<Output> all) {
  std::vector<Output> some;
  for (const Output& o : all) {
    if (o.tensor.present()) some.push_back(o);
  }
  return some;
}

Approximate product(const double* a, const double* b, int64_t count, double unit) {
  double sum = 0, magnitudes = 0;
  for (int64_t d = 0; d < count; ++d) {
    sum += a[d] * b[d];
    magnitudes += std::fabs(a[d] * b[d]);
  }
  const double largest = largest_finite(a, count) + largest_finite(b, count);
  return {sum, feature_chain(1, count) * unit * magnitudes +
                   kFlush * static_cast<double>(count) * (2 + largest)};
}

FoldedPhi::FoldedPhi(const Params& params, const Spec& spec, double unit, bool split) {
  if (!params.phi.present()) return;
  const int64_t m = params.phi.shape[0], features = params.phi.shape[1] * params.phi.shape[2];
  const bool round = spec.phi_precision == Precision::kBFloat16;
  coefficients = m;
  const std::vector<double> phi = widen(params.phi), weight = widen(params.norm_weight);
  by_feature.resize(phi.size());
  for (int64_t c = 0; c < m; ++c) {
    for (int64_t k = 0; k < features; ++k) {
      double v = phi[static_cast<size_t>(c * features + k)];
      if (!weight.empty()) v *= weight[static_cast<size_t>(k)];
      if (round) v = round_to(DType::kBF16, round_to(DType::kF32, v));
      by_feature[static_cast<size_t>(k * m + c)] = v;
    }
  }
  // Rounding to bf16 is the same in a kernel, the product before it being exact or rounded alike.
  if (!round) relative_error = (weight.empty() ? 0 : unit) + (split ? kSplitError : 0);
  largest = largest_finite(by_feature.data(), static_cast<int64_t>(by_feature.size()));
}

void ParameterSums::add(const ParameterSums& other) {
  for (size_t i = 0; i < value.size(); ++i) {
    value[i] += other.value[i];
    bound[i] += other.bound[i];
  }
}

Expected ParameterSums::finish(const char* name, const Tensor& tensor, bool accumulate,
                               double unit) const {
  std::vector<int64_t> shape(tensor.shape, tensor.shape + tensor.rank);
  Expected out(name, shape);
  out.value = value;
  out.bound = bound;
  const std::vector<double> before =
      accumulate ? widen(tensor) : std::vector<double>(value.size(), 0.0);
  for (size_t i = 0; i < value.size(); ++i) {
    out.value[i] += before[i];
    out.bound[i] += unit * (std::fabs(before[i]) + std::fabs(value[i])) + kFlush;
  }
  return out;
}

void add_gate_parameters(const GateLayout& layout, const Bounded& d_logit, const Bounded& z,
                         double chain, ParameterSums* alpha, ParameterSums* bias) {
  for (int64_t c = 0; c < layout.coefficients(); ++c) {
    const size_t at = static_cast<size_t>(c), group = static_cast<size_t>(layout.group(c));
    const Approximate d = d_logit.at(c), v = z.at(c);
    bias->value[at] += d.value;
    bias->bound[at] += chain * std::fabs(d.value) + d.error + kFlush;
    alpha->value[group] += d.value * v.value;
    alpha->bound[group] += chain * std::fabs(d.value * v.value) + d.error * std::fabs(v.value) +
                           std::fabs(d.value) * v.error + kFlush;
  }
}

}  // namespace mhc::verify
