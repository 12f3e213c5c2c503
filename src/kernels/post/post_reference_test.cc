// The definition of post on cases small enough for a pencil, and how it treats types, strides and
// threads.

#include "kernels/post/post_reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "verify/filled.h"
#include "verify/two_workers.h"

namespace mhc {
namespace {

using verify::Buffer;
using verify::filled;
using verify::random_filled;
using verify::widen;
using Values = std::vector<double>;

// h_res sends stream i to i + 1: a transposed mix would send it to i - 1.
TEST(PostReference, CyclicMixMovesStreamsForward) {
  const Buffer x = filled(DType::kF32, {1, 4, 1}, {1, 2, 3, 4});
  const Buffer layer_output = filled(DType::kF32, {1, 1}, {10});
  const Buffer h_post = filled(DType::kF32, {1, 4}, {0, 0, 1, 2});
  const Buffer h_res =
      filled(DType::kF32, {1, 4, 4}, {0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0});
  const Buffer x_next(DType::kF32, {1, 4, 1});
  Spec spec;
  post_reference({spec, x, layer_output, h_post, h_res, x_next});
  EXPECT_EQ(widen(x_next), (Values{4, 1, 2 + 10, 3 + 20}));
}

TEST(PostReference, GatesAreRoundedOnlyWhereAsked) {
  const double gate = 1 + 0x1p-9;  // lies between 1 and the next bf16
  const Buffer x = filled(DType::kBF16, {1, 1, 1}, {512});
  const Buffer layer_output = filled(DType::kBF16, {1, 1}, {-512});
  const Buffer h_post = filled(DType::kF32, {1, 1}, {gate}),
               h_res = filled(DType::kF32, {1, 1, 1}, {gate});
  const Buffer x_next(DType::kBF16, {1, 1, 1});
  PostArgs args{{}, x, layer_output, h_post, h_res, x_next};
  post_reference(args);
  EXPECT_EQ(widen(x_next), Values{0});
  args.spec.h_post_precision = GatePrecision::kActivation;
  post_reference(args);
  EXPECT_EQ(widen(x_next), Values{1});
  args.spec.h_res_precision = GatePrecision::kActivation;
  post_reference(args);
  EXPECT_EQ(widen(x_next), Values{0});
  args.spec.h_post_precision = GatePrecision::kFloat32;
  post_reference(args);
  EXPECT_EQ(widen(x_next), Values{-1});
}

TEST(PostReference, HalfOverflowsToInfinityAndNanStaysInItsToken) {
  const Buffer x = filled(DType::kF16, {3, 1, 1}, {65504, NAN, 1});
  const Buffer layer_output = filled(DType::kF16, {3, 1}, {65504, 1, 1});
  const Buffer h_post = filled(DType::kF32, {3, 1}, {1, 1, 1});
  const Buffer h_res = filled(DType::kF32, {3, 1, 1}, {1, 1, 1});
  const Buffer x_next(DType::kF16, {3, 1, 1});
  post_reference({{}, x, layer_output, h_post, h_res, x_next});
  const Values got = widen(x_next);
  EXPECT_EQ(got[0], INFINITY);
  EXPECT_TRUE(std::isnan(got[1]));
  EXPECT_EQ(got[2], 2);
}

TEST(PostReference, StridesPlaceAndThreadsDoNotMatter) {
  verify::Random random(verify::seed_of("StridesPlaceAndThreadsDoNotMatter"));
  const int64_t tokens = 37, n = 3, embedding = 5;
  const Buffer x = random_filled(DType::kBF16, {tokens, n, embedding}, &random);
  const Buffer layer_output = random_filled(DType::kBF16, {tokens, embedding}, &random);
  const Buffer h_post = random_filled(DType::kF32, {tokens, n}, &random);
  const Buffer h_res = random_filled(DType::kF32, {tokens, n, n}, &random);
  const Buffer want(DType::kBF16, {tokens, n, embedding});
  post_reference({{}, x, layer_output, h_post, h_res, want});

  Buffer padded(DType::kBF16, {tokens, n, embedding}, verify::Placement::kPageEnd, {3, 1});
  padded.copy_from(x);
  post_reference({{}, padded, layer_output, h_post, h_res, padded},
                 verify::two_workers());  // in place
  EXPECT_TRUE(padded.same_bits(want));
  EXPECT_EQ(padded.damage(), "");
}

TEST(PostReference, NoTokens) {
  const Buffer x(DType::kF32, {0, 4, 8}), layer_output(DType::kF32, {0, 8});
  const Buffer h_post(DType::kF32, {0, 4}), h_res(DType::kF32, {0, 4, 4});
  post_reference({{}, x, layer_output, h_post, h_res, x});
}

}  // namespace
}  // namespace mhc
