// The definition of post's backward on a case for a pencil, and its optional, strided and shared
// arguments. That it is post's derivative is shown in tests/reference_gradient_test.cc.

#include "kernels/post_backward/post_backward_reference.h"

#include <gtest/gtest.h>

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

TEST(PostBackwardReference, ByHand) {
  const Buffer g = filled(DType::kF64, {1, 2, 2}, {1, 2, 3, 4});
  const Buffer x = filled(DType::kF64, {1, 2, 2}, {5, 6, 7, 8});
  const Buffer layer_output = filled(DType::kF64, {1, 2}, {10, 100});
  const Buffer h_post = filled(DType::kF64, {1, 2}, {2, 3});
  const Buffer h_res = filled(DType::kF64, {1, 2, 2}, {1, 10, 100, 1000});
  const Buffer d_layer_output(DType::kF64, {1, 2}), d_h_post(DType::kF64, {1, 2});
  const Buffer d_h_res(DType::kF64, {1, 2, 2}), d_x(DType::kF64, {1, 2, 2});
  post_backward_reference(
      {{}, g, x, layer_output, h_post, h_res, d_layer_output, d_h_post, d_h_res, d_x});
  EXPECT_EQ(widen(d_layer_output), (Values{2 * 1 + 3 * 3, 2 * 2 + 3 * 4}));
  EXPECT_EQ(widen(d_h_post), (Values{10 + 200, 30 + 400}));
  EXPECT_EQ(widen(d_h_res), (Values{5 * 1 + 6 * 2, 5 * 3 + 6 * 4, 7 * 1 + 8 * 2, 7 * 3 + 8 * 4}));
  EXPECT_EQ(widen(d_x), (Values{1 + 30, 2 + 40, 100 + 3000, 200 + 4000}));
}

class PostBackwardReferenceProblem : public testing::Test {
 protected:
  static constexpr int64_t kTokens = 35, kStreams = 3, kEmbedding = 7;
  verify::Random random_{verify::seed_of("PostBackwardReferenceProblem")};
  Buffer g_ = random_filled(DType::kBF16, {kTokens, kStreams, kEmbedding}, &random_);
  Buffer x_ = random_filled(DType::kBF16, {kTokens, kStreams, kEmbedding}, &random_);
  Buffer layer_output_ = random_filled(DType::kBF16, {kTokens, kEmbedding}, &random_);
  Buffer h_post_ = random_filled(DType::kF32, {kTokens, kStreams}, &random_);
  Buffer h_res_ = random_filled(DType::kF32, {kTokens, kStreams, kStreams}, &random_);
  Buffer d_layer_output_{DType::kBF16, {kTokens, kEmbedding}};
  Buffer d_h_post_{DType::kF32, {kTokens, kStreams}};
  Buffer d_h_res_{DType::kF32, {kTokens, kStreams, kStreams}};
  Buffer d_x_{DType::kBF16, {kTokens, kStreams, kEmbedding}};
  PostBackwardArgs args_{{},        g_,       x_,  layer_output_, h_post_, h_res_, d_layer_output_,
                         d_h_post_, d_h_res_, d_x_};

  void SetUp() override { post_backward_reference(args_); }
};

TEST_F(PostBackwardReferenceProblem, EachOutputAloneWithWhatItReads) {
  const Buffer d_layer_output(DType::kBF16, {kTokens, kEmbedding});
  const Buffer d_h_post(DType::kF32, {kTokens, kStreams});
  const Buffer d_h_res(DType::kF32, {kTokens, kStreams, kStreams});
  const Buffer d_x(DType::kBF16, {kTokens, kStreams, kEmbedding});
  const Tensor none;
  post_backward_reference({{}, g_, none, none, h_post_, none, d_layer_output, none, none, none});
  post_backward_reference({{}, g_, none, layer_output_, none, none, none, d_h_post, none, none});
  post_backward_reference({{}, g_, x_, none, none, none, none, none, d_h_res, none});
  post_backward_reference({{}, g_, none, none, none, h_res_, none, none, none, d_x});
  EXPECT_TRUE(d_layer_output.same_bits(d_layer_output_));
  EXPECT_TRUE(d_h_post.same_bits(d_h_post_));
  EXPECT_TRUE(d_h_res.same_bits(d_h_res_));
  EXPECT_TRUE(d_x.same_bits(d_x_));
}

TEST_F(PostBackwardReferenceProblem, InPlaceStridedAndThreaded) {
  Buffer g(DType::kBF16, {kTokens, kStreams, kEmbedding}, verify::Placement::kShifted, {2, 3});
  g.copy_from(g_);
  Buffer layer_output(DType::kBF16, {kTokens, kEmbedding});
  layer_output.copy_from(layer_output_);
  PostBackwardArgs args = args_;
  args.d_x_next = g;
  args.d_x = g;
  args.layer_output = layer_output;
  args.d_layer_output = layer_output;
  post_backward_reference(args, verify::two_workers());
  EXPECT_TRUE(g.same_bits(d_x_));
  EXPECT_TRUE(layer_output.same_bits(d_layer_output_));
  EXPECT_EQ(g.damage(), "");
}

// The gradient of sum(x_next) is one number for all elements: a tensor of strides zero.
TEST_F(PostBackwardReferenceProblem, ExpandedCotangent) {
  const Buffer one = filled(DType::kBF16, {1, 1, 1}, {0.75});
  Tensor expanded = one;
  for (int i = 0; i < 3; ++i) {
    expanded.shape[i] = g_.tensor().shape[i];
    expanded.stride[i] = 0;
  }
  const Buffer full = filled(DType::kBF16, {kTokens, kStreams, kEmbedding},
                             Values(static_cast<size_t>(kTokens * kStreams * kEmbedding), 0.75));
  args_.d_x_next = full;
  post_backward_reference(args_);
  const Values want = widen(d_x_), want_h_res = widen(d_h_res_);
  args_.d_x_next = expanded;
  post_backward_reference(args_);
  EXPECT_EQ(widen(d_x_), want);
  EXPECT_EQ(widen(d_h_res_), want_h_res);
}

TEST(PostBackwardReference, NoTokens) {
  const Buffer g(DType::kF32, {0, 4, 8}), h_res(DType::kF32, {0, 4, 4});
  const Tensor none;
  post_backward_reference({{}, g, none, none, none, h_res, none, none, none, g});
}

}  // namespace
}  // namespace mhc
