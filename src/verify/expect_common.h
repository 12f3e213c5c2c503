#pragma once
// Pieces that the expectations share.

#include <cmath>
#include <initializer_list>
#include <string>
#include <vector>

#include "verify/arithmetic.h"
#include "verify/buffer.h"
#include "verify/expect.h"
#include "verify/taped_gates.h"

namespace mhc::verify {

std::vector<Output> present_outputs(std::initializer_list<Output> all);

// An Expected of this shape where the tensor is present, else one without a name or elements.
inline Expected sized(const char* name, const Tensor& tensor, std::vector<int64_t> shape) {
  return tensor.present() ? Expected(name, std::move(shape)) : Expected();
}

// out[d] += weight row[d];  bound[d] += (factor |weight| + error) |row[d]|
inline void add_row(double weight, double error, double factor, const double* row, int64_t count,
                    double* out, double* bound) {
  const double magnitude = factor * std::fabs(weight) + error;
  for (int64_t d = 0; d < count; ++d) {
    out[d] += weight * row[d];
    bound[d] += magnitude * std::fabs(row[d]);
  }
}

inline void add_constant(double amount, int64_t count, double* bound) {
  for (int64_t d = 0; d < count; ++d) bound[d] += amount;
}

// A gate as a mix uses it.
inline Approximate gate_in_mix(Approximate gate, GatePrecision precision, DType activation) {
  return precision == GatePrecision::kActivation ? round_to(activation, gate) : gate;
}

// sum_d a[d] b[d] over the features of one stream.
Approximate product(const double* a, const double* b, int64_t count, double unit);

// phi with norm_weight folded in, feature-major: [n D][m].
struct FoldedPhi {
  FoldedPhi() = default;
  FoldedPhi(const Params& params, const Spec& spec, double unit, bool split);

  int64_t coefficients = 0;
  std::vector<double> by_feature;
  double relative_error = 0;  // of what a kernel has in its place
  double largest = 0;
};

// Gradients of one parameter, summed over tokens.
struct ParameterSums {
  explicit ParameterSums(int64_t count = 0)
      : value(static_cast<size_t>(count), 0.0), bound(static_cast<size_t>(count), 0.0) {}
  void add(const ParameterSums& other);
  // accumulate: to what the tensor holds.
  Expected finish(const char* name, const Tensor& tensor, bool accumulate, double unit) const;

  std::vector<double> value, bound;
};

// Terms of d_alpha and d_bias pass a token chain and, in d_alpha, the coefficients of a group.
inline double gate_chain(int64_t tokens, int64_t coefficients) {
  return token_chain(tokens) + static_cast<double>(coefficients) + 6;
}
void add_gate_parameters(const GateLayout& layout, const Bounded& d_logit, const Bounded& z,
                         double chain, ParameterSums* alpha, ParameterSums* bias);

}  // namespace mhc::verify
