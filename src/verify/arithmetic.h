#pragma once
// What the kernels' arithmetic may lose, as far as it is common to all operations.
//
// A sum of k rounded products, in any order in which no term passes more than k additions, differs
// from the exact one by at most (k + 1) u sum|terms| (1 + k u); blocks of 512 features and of 128
// tokens are part of the definition of a result (base/dims.h), so that chains are short. Every
// bound is in double, u = 2^-24.

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "base/dims.h"
#include "base/dtype.h"

namespace mhc::verify {

// Below this magnitude f32 results and operands are flushed to zero (base/fpenv.h).
inline constexpr double kFlush = 0x1p-126;

// What splitting phi into two bf16 parts loses, relative to phi: the first leaves at most 2^-8 of
// phi's binade, the second rounds that to 8 bits. 2^-17 is the largest case, 2^-18 the usual one.
inline constexpr double kSplitError = 0x1p-17;

// exp_of is within 2 ulp, and an ulp is at most 2 u.
inline constexpr double kExpRoundings = 4;

// Unit roundoff of the arithmetic. f64 takes the double path, whose own error these expectations
// share: twice.
inline double unit_of(DType activation) { return activation == DType::kF64 ? 0x1p-52 : 0x1p-24; }

// Factor of sum|terms| for a sum over the features of `streams` streams: products of one block,
// then blocks, then the lanes of a vector. `parts` is 2 where phi travels as two bf16 parts.
inline double feature_chain(int64_t streams, int64_t embedding, int64_t parts = 1) {
  const int64_t block = std::min(embedding, kFeatureBlock) * parts;
  return static_cast<double>(block + streams * ceil_div(embedding, kFeatureBlock) + 6);
}

// The same for sums over tokens.
inline double token_chain(int64_t tokens) {
  return static_cast<double>(std::min(tokens, kTokenBlock) + ceil_div(tokens, kTokenBlock) + 2);
}

inline double round_to(DType type, double value) {
  return visit_dtype(type, [&](auto tag) { return to_double(from_double<decltype(tag)>(value)); });
}

// Where a kernel rounds a value that it knows to within `error`: the same result as the exact
// value's unless a rounding boundary lies between, and then a whole step.
struct Approximate {
  double value = 0, error = 0;
};
inline Approximate round_to(DType type, Approximate v) {
  if (std::isnan(v.value) || std::isnan(v.error)) return {v.value, v.value + v.error};
  const double low = round_to(type, v.value - v.error), high = round_to(type, v.value + v.error);
  const double middle = round_to(type, v.value);
  return {middle, std::max(high - middle, middle - low)};
}

}  // namespace mhc::verify
