#pragma once
// A manifold on plain arrays, in any number type.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "base/simd/scalar.h"
#include "manifold/manifold.h"
#include "verify/derivative.h"
#include "verify/random.h"

namespace mhc::manifold_test {

using verify::Extended;
using Float = scalar::VF;

inline double number(double v) { return v; }
inline double number(Float v) { return static_cast<double>(v.v); }

template <class V>
V make(double v) {
  if constexpr (std::is_same_v<V, Float>) {
    return Float{static_cast<float>(v)};
  } else {
    return static_cast<V>(v);
  }
}

template <class V>
std::vector<V> convert(const std::vector<double>& in) {
  std::vector<V> out;
  for (const double v : in) out.push_back(make<V>(v));
  return out;
}

template <class M, class V>
std::vector<V> forward_of(int64_t n, const ManifoldOptions& options, const std::vector<V>& logits) {
  std::vector<V> h_res(static_cast<size_t>(n * n));
  std::vector<V> scratch(static_cast<size_t>(M::scratch_size(n, options)));
  M::forward(n, options, logits.data(), h_res.data(), scratch.data());
  return h_res;
}

template <class M, class V>
std::vector<V> backward_of(int64_t n, const ManifoldOptions& options, const std::vector<V>& logits,
                           const std::vector<V>& d_h_res) {
  std::vector<V> d_logits(logits.size());
  std::vector<V> scratch(static_cast<size_t>(M::scratch_size(n, options)));
  M::backward(n, options, logits.data(), d_h_res.data(), d_logits.data(), scratch.data());
  return d_logits;
}

// Values that float holds, so that every number type starts from the same ones.
inline std::vector<double> floats(verify::Random* random, int64_t size, double scale) {
  std::vector<double> out(static_cast<size_t>(size));
  for (double& v : out) v = static_cast<double>(static_cast<float>(scale * random->normal()));
  return out;
}

template <class V>
double distance(const std::vector<V>& got, const std::vector<Extended>& want) {
  Extended error = 0, norm = 0;
  for (size_t k = 0; k < want.size(); ++k) {
    const Extended e = static_cast<Extended>(number(got[k])) - want[k];
    error += e * e;
    norm += want[k] * want[k];
  }
  EXPECT_GT(norm, 0);
  return static_cast<double>(std::sqrt(error / norm));
}

// d_logits in double and in f32 against extended precision, relative to its norm.
template <class M>
void expect_accurate_gradient(int64_t n, const std::vector<double>& logits,
                              const std::vector<double>& d) {
  const ManifoldOptions options;
  const auto want = backward_of<M>(n, options, convert<Extended>(logits), convert<Extended>(d));
  EXPECT_LE(distance(backward_of<M>(n, options, logits, d), want), 1e-13);
  EXPECT_LE(distance(backward_of<M>(n, options, convert<Float>(logits), convert<Float>(d)), want),
            1e-5);
}

}  // namespace mhc::manifold_test
