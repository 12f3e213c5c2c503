// The definition of pre's backward: sums over tokens, roundings, special tokens.
// That it is pre's derivative is shown in tests/reference_gradient_test.cc.

#include "kernels/pre_backward/pre_backward_reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/pre_backward/pre_backward_reference_test.h"
#include "verify/filled.h"
#include "verify/two_workers.h"

namespace mhc {
namespace {

using pre_backward_test::load;
using pre_backward_test::Problem;
using verify::Buffer;
using verify::filled;
using verify::widen;
using Values = std::vector<double>;

// More tokens than the driver holds at a time, so that its blocks show.
TEST(PreBackwardReference, ParameterGradientsAreSumsOverTokens) {
  constexpr int64_t kTokens = 131;
  Problem p("ParameterGradientsAreSumsOverTokens", DType::kF64, DType::kF64, kTokens, 3, 5,
            DType::kF64);
  pre_backward_reference(p.args(), verify::two_workers());
  const Buffer* gradients[] = {&p.d_phi, &p.d_alpha, &p.d_bias, &p.d_norm_weight};
  std::vector<Values> got, sums;
  for (const Buffer* b : gradients) {
    got.push_back(widen(*b));
    sums.emplace_back(got.back().size());
  }
  const Values d_x = widen(p.d_x);
  for (int64_t t = 0; t < kTokens; ++t) {
    pre_backward_reference(p.args_of(t, 1));
    for (size_t k = 0; k < sums.size(); ++k) {
      const Values one = widen(*gradients[k]);
      for (size_t e = 0; e < one.size(); ++e) sums[k][e] += one[e];
    }
  }
  for (size_t k = 0; k < sums.size(); ++k) {
    for (size_t e = 0; e < sums[k].size(); ++e) EXPECT_NEAR(got[k][e], sums[k][e], 1e-11);
  }
  EXPECT_EQ(widen(p.d_x), d_x);  // each token alone, bit by bit
}

TEST(PreBackwardReference, NanStaysInItsToken) {
  Problem p("NanStaysInItsToken", DType::kF32, DType::kF32, 3, 2, 2, DType::kF32);
  p.x.tensor().store(NAN, 1, 0, 0);
  pre_backward_reference(p.args());
  for (int64_t i = 0; i < 2; ++i) {
    EXPECT_FALSE(std::isnan(load(p.d_x, 0, i)) || std::isnan(load(p.d_x, 2, i)));
    EXPECT_TRUE(std::isnan(load(p.d_x, 1, i)));
  }
  EXPECT_TRUE(std::isnan(load(p.d_phi, 0, 0, 0)));
}

// The norm's term of a zero token is zero in either form; the projection's stays.
TEST(PreBackwardReference, ZeroTokenHasAFiniteGradient) {
  for (const NormForm form : {NormForm::kInside, NormForm::kOutside}) {
    Problem p("ZeroToken", DType::kF64, DType::kF64, 1, 2, 2, DType::kF64);
    p.spec.norm_form = form;
    for (int64_t i = 0; i < 4; ++i) p.x.tensor().store(0, 0, i / 2, i % 2);
    for (int64_t c = 0; c < p.m; ++c) p.z.tensor().store(0, 0, c);
    p.inv_rms.tensor().store(1e3, 0);
    pre_backward_reference(p.args());
    for (const double v : widen(p.d_x)) {
      EXPECT_TRUE(std::isfinite(v));
      EXPECT_GT(std::fabs(v), 1);
    }
  }
}

// gradient_precision bfloat16: d_q is rounded once, and that value is in d_phi, in d_x's projection
// term and in its norm term. With one token and x[0] = 1, d_phi[c,0] is d_q[c] itself.
TEST(PreBackwardReference, RoundedProjectionGradientServesEverywhere) {
  for (const NormForm form : {NormForm::kInside, NormForm::kOutside}) {
    Problem p("RoundedProjectionGradient", DType::kF64, DType::kF64, 1, 2, 3, DType::kF64);
    p.spec.norm_form = form;
    p.x.tensor().store(1, 0, 0, 0);
    PreBackwardArgs args = p.args();
    args.params.norm_weight = args.d_norm_weight = Tensor{};
    args.d_layer_input = args.d_x_next = Tensor{};
    pre_backward_reference(args);
    const Values exact = widen(p.d_phi);
    args.spec.gradient_precision = Precision::kBFloat16;
    pre_backward_reference(args);
    double norm = 0, mean_square = 0;
    for (int64_t k = 0; k < 6; ++k) mean_square += std::pow(load(p.x, 0, k / 3, k % 3), 2) / 6;
    for (int64_t c = 0; c < p.m; ++c) {
      const double d_q = load(p.d_phi, c);
      EXPECT_EQ(d_q, rounded(exact[static_cast<size_t>(c * 6)], DType::kBF16));
      norm += d_q * load(p.z, 0, c);
    }
    norm *= form == NormForm::kInside ? load(p.inv_rms, 0) / 6 : 1 / (6 * std::sqrt(mean_square));
    for (int64_t k = 0; k < 6; ++k) {
      double want = -norm * load(p.x, 0, k / 3, k % 3);
      for (int64_t c = 0; c < p.m; ++c) want += load(p.d_phi, c) * load(p.phi, c, k / 3, k % 3);
      EXPECT_NEAR(load(p.d_x, 0, k / 3, k % 3), want, 1e-14);
    }
  }
}

// project_partial: d_q and d_sum_squares are given. One token, n = 1, m = 3, D = 1.
TEST(PreBackwardReference, PartialProjectionByHand) {
  Spec spec;
  spec.streams = 1;
  spec.manifold = 2;
  const double weight = 1 + 0x1p-9;  // which rounds to 1 in bf16
  const Buffer x = filled(DType::kF32, {1, 1, 1}, {2}),
               phi = filled(DType::kF32, {3, 1, 1}, {1, 10, 100});
  const Buffer norm_weight = filled(DType::kF32, {1, 1}, {weight});
  const Buffer d_q = filled(DType::kF32, {1, 3}, {3, 5, 7}),
               d_ss = filled(DType::kF32, {1}, {1000});
  const Buffer d_x(DType::kF32, {1, 1, 1}), d_phi(DType::kF32, {3, 1, 1}),
      d_norm_weight(DType::kF32, {1, 1});
  PreBackwardArgs args;
  args.spec = spec;
  args.x = x;
  args.params.phi = phi;
  args.params.norm_weight = norm_weight;
  args.d_q = d_q;
  args.d_sum_squares = d_ss;
  args.d_x = d_x;
  args.d_phi = d_phi;
  args.d_norm_weight = d_norm_weight;
  pre_backward_reference(args);
  EXPECT_FLOAT_EQ(static_cast<float>(load(d_x, 0)), static_cast<float>(753 * weight + 4000));
  EXPECT_FLOAT_EQ(static_cast<float>(load(d_phi, 1)), static_cast<float>(5 * 2 * weight));
  EXPECT_EQ(load(d_norm_weight, 0), 2 * 753);
  args.spec.phi_precision = Precision::kBFloat16;  // rounded in d_x alone
  pre_backward_reference(args);
  EXPECT_EQ(load(d_x, 0), 753 + 4000);
  EXPECT_FLOAT_EQ(static_cast<float>(load(d_phi, 1)), static_cast<float>(5 * 2 * weight));
  EXPECT_EQ(load(d_norm_weight, 0), 2 * 753);
  args.d_q = Tensor{};
  pre_backward_reference(args);
  EXPECT_EQ(load(d_x, 0), 4000);
}

TEST(PreBackwardReference, EagerTermIsAddedAsItIs) {
  Problem p("EagerTerm", DType::kF64, DType::kF64, 4, 2, 3, DType::kF64);
  PreBackwardArgs args = p.args();
  args.d_x_next = Tensor{};
  pre_backward_reference(args);
  const Values without = widen(p.d_x), g = widen(p.g);
  args.d_x_post = p.g;
  pre_backward_reference(args);
  const Values with = widen(p.d_x);
  for (size_t k = 0; k < with.size(); ++k) EXPECT_NEAR(with[k], without[k] + g[k], 1e-14);
}

}  // namespace
}  // namespace mhc
