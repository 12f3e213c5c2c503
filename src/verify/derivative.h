#pragma once
// Holds a hand-derived backward against its forward, both in long double.
//
// Forward maps a list of arrays to a list of arrays; the loss is sum_k <cotangent_k, output_k>. For
// each input in turn, along random directions v, <gradient, v> must equal the loss's derivative
// along v: by dual numbers to rounding, by central differences to their truncation. A wrong entry
// of a gradient changes <gradient, v> unless v is orthogonal to the error, which a random v is not.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "verify/dual.h"
#include "verify/random.h"

namespace mhc::verify {

using Extended = long double;
template <class Real>
using Arrays = std::vector<std::vector<Real>>;

inline std::vector<Extended> random_array(Random* random, int64_t size, double scale = 1.0,
                                          double offset = 0.0) {
  std::vector<Extended> out(static_cast<size_t>(size));
  for (Extended& v : out) v = static_cast<Extended>(offset + scale * random->normal());
  return out;
}

struct DerivativeCheck {
  const Arrays<Extended>& inputs;
  const Arrays<Extended>& cotangents;  // one per output
  const Arrays<Extended>& gradients;   // one per input; empty: this input has none
  std::vector<std::string> names;      // of the inputs
  bool differences = true;  // false where forward has roundings, which make it a staircase
};

// Dual numbers: each side is a sum of terms with some thousand roundings of 2^-64 each at worst.
inline constexpr Extended kDualBound = 0x1p-50L;
// Differences of fourth order with a step of length h = 2^-12: truncation h^4 |f^(5)| / 30, with
// fifth derivatives of up to a thousand here; rounding 2^-64 |v| / h.
inline constexpr Extended kStepLength = 0x1p-12L;
inline constexpr Extended kDifferenceBound = 0x1p-40L;

template <class Forward>
void expect_derivative(const Forward& forward, const DerivativeCheck& check, Random* random) {
  const auto loss = [&](const Arrays<Extended>& outputs) {
    Extended sum = 0;
    for (size_t k = 0; k < outputs.size(); ++k) {
      for (size_t e = 0; e < outputs[k].size(); ++e) sum += check.cotangents[k][e] * outputs[k][e];
    }
    return sum;
  };
  for (size_t a = 0; a < check.inputs.size(); ++a) {
    if (check.gradients[a].empty()) continue;
    ASSERT_EQ(check.gradients[a].size(), check.inputs[a].size()) << check.names[a];
    const std::vector<Extended> direction =
        random_array(random, static_cast<int64_t>(check.inputs[a].size()));

    Extended backward = 0, scale = 0;
    for (size_t e = 0; e < direction.size(); ++e) {
      backward += check.gradients[a][e] * direction[e];
      scale += std::fabs(check.gradients[a][e] * direction[e]);
    }

    Arrays<Dual<Extended>> inputs;
    for (const auto& array : check.inputs) {
      auto& duals = inputs.emplace_back();
      for (const Extended v : array) duals.push_back({v, 0});
    }
    for (size_t e = 0; e < direction.size(); ++e) inputs[a][e].d = direction[e];
    const Arrays<Dual<Extended>> outputs = forward(inputs);
    ASSERT_EQ(outputs.size(), check.cotangents.size());
    Extended dual = 0;
    for (size_t k = 0; k < outputs.size(); ++k) {
      ASSERT_EQ(outputs[k].size(), check.cotangents[k].size()) << "output " << k;
      for (size_t e = 0; e < outputs[k].size(); ++e) {
        dual += check.cotangents[k][e] * outputs[k][e].d;
        // The forward side's own terms: where the gradient is exactly zero they still round.
        scale += std::fabs(check.cotangents[k][e]) *
                 (std::fabs(outputs[k][e].d) + std::fabs(outputs[k][e].v));
      }
    }
    EXPECT_LE(std::fabs(backward - dual), kDualBound * scale)
        << check.names[a] << ": backward " << static_cast<double>(backward) << ", dual numbers "
        << static_cast<double>(dual);
    EXPECT_FALSE(std::isnan(backward)) << check.names[a];

    if (!check.differences) continue;
    Extended length = 0;
    for (const Extended v : direction) length += v * v;
    const Extended step = kStepLength / std::sqrt(length);
    const auto at = [&](Extended distance) {
      Arrays<Extended> moved = check.inputs;
      for (size_t e = 0; e < direction.size(); ++e) moved[a][e] += distance * direction[e];
      return loss(forward(moved));
    };
    const Extended slope =
        (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step);
    EXPECT_LE(std::fabs(backward - slope), kDifferenceBound * scale)
        << check.names[a] << ": backward " << static_cast<double>(backward) << ", differences "
        << static_cast<double>(slope);
  }
}

}  // namespace mhc::verify
