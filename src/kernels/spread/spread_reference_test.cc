// The definition of spread: copies, weights, the weights' gradient, rounding, strides.

#include "kernels/spread/spread_reference.h"

#include <gtest/gtest.h>

#include <vector>

#include "verify/filled.h"
#include "verify/two_workers.h"

namespace mhc {
namespace {

using verify::Buffer;
using verify::filled;
using verify::widen;
using Values = std::vector<double>;

SpreadArgs make_args(int64_t streams, const Tensor& source) {
  SpreadArgs args;
  args.streams = streams;
  args.source = source;
  return args;
}

TEST(SpreadReference, ByHand) {
  const Buffer source = filled(DType::kF32, {2, 2}, {1, 2, 3, 4});
  const Buffer x = filled(DType::kF32, {2, 2, 2}, {1, 10, 100, 1000, 5, 6, 7, 8});
  const Buffer weights = filled(DType::kF32, {2, 2}, {1, 10, 100, 1000});
  const Buffer out(DType::kF32, {2, 2, 2}), d_weights(DType::kF32, {2, 2});
  SpreadArgs args = make_args(2, source);
  args.out = out;
  args.scale = 0.5;
  spread_reference(args);
  EXPECT_EQ(widen(out), (Values{.5, 1, .5, 1, 1.5, 2, 1.5, 2}));
  args.weights = weights;
  spread_reference(args);
  EXPECT_EQ(widen(out), (Values{.5, 1, 5, 10, 150, 200, 1500, 2000}));
  args.out = Tensor{};
  args.x = x;
  args.d_weights = d_weights;  // which the scale does not touch
  spread_reference(args);
  EXPECT_EQ(widen(d_weights), (Values{21, 2100, 39, 53}));
}

TEST(SpreadReference, WeightsAreRoundedOnlyInTheProduct) {
  // 1 + 3/512 becomes 1 + 4/512. Three times the one is 3.0176, three times the other 3.0234, a tie
  // of bf16's.
  const Buffer source = filled(DType::kBF16, {1, 1}, {3});
  const Buffer weights = filled(DType::kF32, {1, 1}, {1 + 3.0 / 512});
  const Buffer x = filled(DType::kBF16, {1, 1, 1}, {2});
  const Buffer out(DType::kBF16, {1, 1, 1}), d_weights(DType::kF32, {1, 1});
  SpreadArgs args = make_args(1, source);
  args.weights = weights;
  args.x = x;
  args.out = out;
  args.d_weights = d_weights;
  spread_reference(args);
  EXPECT_EQ(widen(out), Values{3.015625});
  EXPECT_EQ(widen(d_weights), Values{6});
  args.weights_precision = GatePrecision::kActivation;
  spread_reference(args);
  EXPECT_EQ(widen(out), Values{3.03125});
  EXPECT_EQ(widen(d_weights), Values{6});
}

TEST(SpreadReference, InPlaceStridedAndThreaded) {
  verify::Random random(verify::seed_of("SpreadReference"));
  const Buffer source = verify::random_filled(DType::kBF16, {33, 9}, &random);
  const Buffer x = verify::random_filled(DType::kBF16, {33, 4, 9}, &random);
  const Buffer weights = verify::random_filled(DType::kF32, {33, 4}, &random);
  const Buffer want(DType::kBF16, {33, 4, 9}), want_d_weights(DType::kF32, {33, 4});
  SpreadArgs args = make_args(4, source);
  args.weights = weights;
  args.x = x;
  args.out = want;
  args.d_weights = want_d_weights;
  spread_reference(args);
  Buffer padded(DType::kBF16, {33, 4, 9}, verify::Placement::kPageEnd, {1, 2});
  padded.copy_from(x);
  const Buffer d_weights(DType::kF32, {33, 4});
  args.x = padded;
  args.out = padded;
  args.d_weights = d_weights;
  spread_reference(args, verify::two_workers());
  EXPECT_TRUE(padded.same_bits(want));
  EXPECT_TRUE(d_weights.same_bits(want_d_weights));
  EXPECT_EQ(padded.damage(), "");
}

}  // namespace
}  // namespace mhc
