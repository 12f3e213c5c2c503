// The definition of the coefficients from projections. Against the whole operation:
// tests/reference_sharded_test.cc.

#include "kernels/coefficients/coefficients_reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "verify/filled.h"

namespace mhc {
namespace {

using verify::Buffer;
using verify::filled;
using verify::widen;
using Values = std::vector<double>;

double sigmoid(double l) { return 1 / (1 + std::exp(-l)); }

// n = 1, three coefficients, K = 1 * 8 features in all shards.
struct Problem {
  Problem() {
    spec.streams = 1;
    spec.manifold = 2;
    spec.norm_eps = 0.5;
    spec.pre_eps = 0.25;
    spec.post_mult = 3;
  }
  Spec spec;
  Buffer q = filled(DType::kF64, {1, 3}, {2, -3, 5}), sum_squares = filled(DType::kF64, {1}, {6});
  Buffer alpha = filled(DType::kF64, {3}, {1, 2, 3}),
         bias = filled(DType::kF64, {3}, {.5, .25, .125});
  Buffer z{DType::kF64, {1, 3}}, inv_rms{DType::kF64, {1}}, h_pre{DType::kF64, {1, 1}};
  Buffer h_post{DType::kF64, {1, 1}}, h_res{DType::kF64, {1, 1, 1}};

  CoefficientsArgs args() const {
    CoefficientsArgs a;
    a.spec = spec;
    a.embedding_total = 8;
    a.q = q;
    a.sum_squares = sum_squares;
    a.alpha = alpha;
    a.bias = bias;
    a.z = z;
    a.inv_rms = inv_rms;
    a.h_pre = h_pre;
    a.h_post = h_post;
    a.h_res = h_res;
    return a;
  }
};

TEST(CoefficientsReference, ByHand) {
  for (const NormForm form : {NormForm::kInside, NormForm::kOutside}) {
    Problem p;
    p.spec.norm_form = form;
    coefficients_reference(p.args());
    const double inv_rms =
        form == NormForm::kInside ? 1 / std::sqrt(0.75 + 0.5) : 1 / (std::sqrt(0.75) + 0.5);
    EXPECT_NEAR(widen(p.inv_rms)[0], inv_rms, 1e-15);
    EXPECT_NEAR(widen(p.z)[1], -3 * inv_rms, 1e-15);
    EXPECT_NEAR(widen(p.h_pre)[0], sigmoid(2 * inv_rms + .5) + 0.25, 1e-15);
    EXPECT_NEAR(widen(p.h_post)[0], 3 * sigmoid(2 * -3 * inv_rms + .25), 1e-15);
    EXPECT_NEAR(widen(p.h_res)[0], 3 * 5 * inv_rms + .125, 1e-14);
  }
}

TEST(CoefficientsReference, BackwardByHand) {
  for (const NormForm form : {NormForm::kInside, NormForm::kOutside}) {
    Problem p;
    p.spec.norm_form = form;
    coefficients_reference(p.args());
    const Buffer d_h_pre = filled(DType::kF64, {1, 1}, {7}),
                 d_h_res = filled(DType::kF64, {1, 1, 1}, {11});
    const Buffer d_q(DType::kF64, {1, 3}), d_sum_squares(DType::kF64, {1});
    const Buffer d_alpha = filled(DType::kF64, {3}, {100, 200, 300}), d_bias(DType::kF64, {3});
    CoefficientsBackwardArgs a;
    a.spec = p.spec;
    a.embedding_total = 8;
    a.z = p.z;
    a.inv_rms = p.inv_rms;
    a.sum_squares = p.sum_squares;
    a.alpha = p.alpha;
    a.bias = p.bias;
    a.d_h_pre = d_h_pre;
    a.d_h_res = d_h_res;
    a.d_q = d_q;
    a.d_sum_squares = d_sum_squares;
    a.d_bias = d_bias;
    coefficients_backward_reference(a);
    const double r = widen(p.inv_rms)[0], s = sigmoid(2 * r + .5);
    const double d_logit = 7 * s * (1 - s);
    EXPECT_NEAR(widen(d_bias)[0], d_logit, 1e-14);
    EXPECT_EQ(widen(d_bias)[1], 0);
    EXPECT_EQ(widen(d_bias)[2], 11);
    EXPECT_NEAR(widen(d_q)[0], r * d_logit, 1e-14);
    EXPECT_EQ(widen(d_q)[1], 0);
    EXPECT_NEAR(widen(d_q)[2], r * 3 * 11, 1e-14);
    // d inv_rms / d ss times sum dz q
    const double slope =
        form == NormForm::kInside ? -r * r * r / 16 : -r * r / (16 * std::sqrt(0.75));
    EXPECT_NEAR(widen(d_sum_squares)[0], slope * (d_logit * 2 + 33 * 5), 1e-14);
    a.d_bias = Tensor{};
    a.d_alpha = d_alpha;
    a.accumulate = true;
    coefficients_backward_reference(a);
    EXPECT_NEAR(widen(d_alpha)[0], 100 + d_logit * 2 * r, 1e-12);
    EXPECT_EQ(widen(d_alpha)[1], 200);
    EXPECT_NEAR(widen(d_alpha)[2], 300 + 11 * 5 * r, 1e-12);
  }
}

// Relative to 1e-6 and better until it underflows; s (1 - s) would be zero from 37 on.
TEST(CoefficientsReference, SigmoidDerivativeFarOut) {
  for (const double logit : {8., 10., 12., 17., 30., 88., 700.}) {
    for (const double sign : {1., -1.}) {
      Problem p;
      p.bias = filled(DType::kF64, {3}, {sign * logit, 0, 0});
      p.z = filled(DType::kF64, {1, 3}, {0, 0, 0});
      p.inv_rms = filled(DType::kF64, {1}, {1});
      const Buffer d_h_pre = filled(DType::kF64, {1, 1}, {1}), d_bias(DType::kF64, {3});
      CoefficientsBackwardArgs a;
      a.spec = p.spec;
      a.embedding_total = 8;
      a.z = p.z;
      a.inv_rms = p.inv_rms;
      a.alpha = p.alpha;
      a.bias = p.bias;
      a.d_h_pre = d_h_pre;
      a.d_bias = d_bias;
      coefficients_backward_reference(a);
      const long double e = std::exp(-static_cast<long double>(logit));
      const double want = static_cast<double>(e / ((1 + e) * (1 + e)));
      EXPECT_NEAR(widen(d_bias)[0] / want, 1, 1e-14) << logit;
    }
  }
}

TEST(CoefficientsReference, NoTokens) {
  Problem p;
  p.z = Buffer(DType::kF64, {0, 3});
  p.inv_rms = Buffer(DType::kF64, {0});
  const Buffer d_bias(DType::kF64, {3});
  CoefficientsBackwardArgs a;
  a.spec = p.spec;
  a.embedding_total = 8;
  a.z = p.z;
  a.inv_rms = p.inv_rms;
  a.alpha = p.alpha;
  a.bias = p.bias;
  a.d_bias = d_bias;
  coefficients_backward_reference(a);
  EXPECT_EQ(widen(d_bias), (Values{0, 0, 0}));
}

}  // namespace
}  // namespace mhc
