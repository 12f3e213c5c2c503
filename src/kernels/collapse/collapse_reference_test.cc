// The definition of collapse: weights, scale, rounding, strides.

#include "kernels/collapse/collapse_reference.h"

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

CollapseArgs make_args(const Tensor& x, const Tensor& weights, const Tensor& out) {
  CollapseArgs args;
  args.x = x;
  args.weights = weights;
  args.out = out;
  return args;
}

TEST(CollapseReference, ByHand) {
  const Buffer x = filled(DType::kF32, {2, 3, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const Buffer weights = filled(DType::kF32, {2, 3}, {1, 10, 100, 0, 0, 2});
  const Buffer out(DType::kF32, {2, 2});
  CollapseArgs args = make_args(x, weights, out);
  collapse_reference(args);
  EXPECT_EQ(widen(out), (Values{531, 642, 22, 24}));
  args.scale = 0.5;
  collapse_reference(args);
  EXPECT_EQ(widen(out), (Values{265.5, 321, 11, 12}));
  args.weights = Tensor{};
  collapse_reference(args);
  EXPECT_EQ(widen(out), (Values{4.5, 6, 13.5, 15}));
}

TEST(CollapseReference, WeightsAreRoundedOnlyWhereAsked) {
  const Buffer x = filled(DType::kBF16, {1, 2, 1}, {512, -512});
  const Buffer weights = filled(DType::kF32, {1, 2}, {1 + 0x1p-9, 1});
  const Buffer out(DType::kBF16, {1, 1});
  CollapseArgs args = make_args(x, weights, out);
  collapse_reference(args);
  EXPECT_EQ(widen(out), Values{1});
  args.weights_precision = GatePrecision::kActivation;
  collapse_reference(args);
  EXPECT_EQ(widen(out), Values{0});
}

TEST(CollapseReference, StridesAndThreadsDoNotMatter) {
  verify::Random random(verify::seed_of("CollapseReference"));
  const Buffer x = verify::random_filled(DType::kF16, {33, 4, 9}, &random);
  const Buffer weights = verify::random_filled(DType::kF32, {33, 4}, &random);
  const Buffer want(DType::kF16, {33, 9});
  collapse_reference(make_args(x, weights, want));
  Buffer padded(DType::kF16, {33, 4, 9}, verify::Placement::kPageEnd, {1, 2});
  padded.copy_from(x);
  const Buffer out(DType::kF16, {33, 9}, verify::Placement::kShifted, {5, 0});
  collapse_reference(make_args(padded, weights, out), verify::two_workers());
  EXPECT_TRUE(out.same_bits(want));
  EXPECT_EQ(out.damage(), "");
  const Buffer nothing(DType::kF16, {0, 4, 9}), empty(DType::kF16, {0, 9});
  collapse_reference(make_args(nothing, {}, empty));
}

}  // namespace
}  // namespace mhc
