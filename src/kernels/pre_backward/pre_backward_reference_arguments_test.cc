// How the definition of pre's backward treats its outputs: optional, accumulated, narrow, shared,
// empty.

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "kernels/pre_backward/pre_backward_reference.h"
#include "kernels/pre_backward/pre_backward_reference_test.h"
#include "verify/filled.h"
#include "verify/two_workers.h"

namespace mhc {
namespace {

using pre_backward_test::Problem;
using verify::Buffer;
using verify::filled;
using verify::widen;
using Values = std::vector<double>;

TEST(PreBackwardReferenceArguments, AccumulatesOrOverwrites) {
  Problem p("AccumulatesOrOverwrites", DType::kBF16, DType::kF32, 5, 2, 3, DType::kBF16);
  pre_backward_reference(p.args());
  const Values once = widen(p.d_phi), once_alpha = widen(p.d_alpha);
  const Values once_bias = widen(p.d_bias), once_weight = widen(p.d_norm_weight);
  pre_backward_reference(p.args());
  EXPECT_EQ(widen(p.d_phi), once);
  PreBackwardArgs args = p.args();
  args.accumulate = true;
  pre_backward_reference(args);
  // The sum is rounded once; each half of it has a rounding of its own.
  const auto expect_double = [](const Buffer& b, const Values& half) {
    const Values got = widen(b);
    for (size_t e = 0; e < got.size(); ++e) {
      EXPECT_NEAR(got[e], 2 * half[e], 0x1p-22 * std::fabs(half[e]));
    }
  };
  expect_double(p.d_phi, once);
  expect_double(p.d_alpha, once_alpha);
  expect_double(p.d_bias, once_bias);
  expect_double(p.d_norm_weight, once_weight);
}

TEST(PreBackwardReferenceArguments, GradientInItsParametersTypeIsRoundedOnce) {
  Problem p("GradientInItsParametersType", DType::kBF16, DType::kF32, 5, 2, 3, DType::kBF16);
  pre_backward_reference(p.args());
  const Buffer d_phi(DType::kBF16, {p.m, 2, 3});
  PreBackwardArgs args = p.args();
  args.d_phi = d_phi;
  pre_backward_reference(args);
  const Values wide = widen(p.d_phi), narrow = widen(d_phi);
  for (size_t e = 0; e < wide.size(); ++e) {
    EXPECT_NEAR(narrow[e], wide[e], (0x1p-8 + 0x1p-23) * std::fabs(wide[e]));
  }
}

TEST(PreBackwardReferenceArguments, EachOutputAlone) {
  Problem p("EachOutputAlone", DType::kBF16, DType::kF32, 19, 2, 3, DType::kF32);
  pre_backward_reference(p.args());
  const auto run = [&](auto choose, std::vector<int64_t> shape, DType type, const Buffer& want) {
    const Buffer out(type, std::move(shape));
    PreBackwardArgs args = p.args();
    args.d_x = args.d_phi = args.d_alpha = args.d_bias = args.d_norm_weight = Tensor{};
    args.*choose = out;
    pre_backward_reference(args);
    EXPECT_TRUE(out.same_bits(want));
  };
  run(&PreBackwardArgs::d_x, {19, 2, 3}, DType::kBF16, p.d_x);
  run(&PreBackwardArgs::d_phi, {p.m, 2, 3}, DType::kF32, p.d_phi);
  run(&PreBackwardArgs::d_alpha, {3}, DType::kF32, p.d_alpha);
  run(&PreBackwardArgs::d_bias, {p.m}, DType::kF32, p.d_bias);
  run(&PreBackwardArgs::d_norm_weight, {2, 3}, DType::kF32, p.d_norm_weight);
}

TEST(PreBackwardReferenceArguments, InPlaceStridedAndThreaded) {
  Problem p("InPlaceStridedAndThreaded", DType::kF16, DType::kF32, 150, 2, 5, DType::kF32);
  pre_backward_reference(p.args());
  Buffer g(DType::kF16, {150, 2, 5}, verify::Placement::kPageEnd, {1, 2});
  g.copy_from(p.g);
  const Buffer d_phi(DType::kF32, {p.m, 2, 5}), d_norm_weight(DType::kF32, {2, 5});
  PreBackwardArgs args = p.args();
  args.d_x_next = g;
  args.d_x = g;
  args.d_phi = d_phi;
  args.d_norm_weight = d_norm_weight;
  pre_backward_reference(args, verify::two_workers());
  EXPECT_TRUE(g.same_bits(p.d_x));
  EXPECT_TRUE(d_phi.same_bits(p.d_phi));
  EXPECT_TRUE(d_norm_weight.same_bits(p.d_norm_weight));
  EXPECT_EQ(g.damage(), "");
}

TEST(PreBackwardReferenceArguments, NoTokensMeansZeroGradients) {
  Problem p("NoTokens", DType::kBF16, DType::kF32, 0, 2, 3, DType::kF32);
  pre_backward_reference(p.args());
  for (const double v : widen(p.d_phi)) EXPECT_EQ(v, 0);
  for (const double v : widen(p.d_norm_weight)) EXPECT_EQ(v, 0);
  for (const double v : widen(p.d_alpha)) EXPECT_EQ(v, 0);
  for (const double v : widen(p.d_bias)) EXPECT_EQ(v, 0);
  PreBackwardArgs args = p.args();
  const Buffer kept = filled(DType::kF32, {3}, {1, 2, 3});
  args.d_alpha = kept;
  args.accumulate = true;
  pre_backward_reference(args);
  EXPECT_EQ(widen(kept), (Values{1, 2, 3}));
}

}  // namespace
}  // namespace mhc
