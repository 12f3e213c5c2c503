#include "kernels/post/post.h"

#include <bit>

#include "kernels/common/streaming_test.h"

namespace mhc::streaming {
namespace {

struct Problem {
  Buffer x, layer_output, h_post, h_res, x_next;

  Problem(DType dtype, int64_t tokens, int64_t n, int64_t embedding, uint64_t seed,
          Placement placement = Placement::kAligned, Padding padding = {})
      : x(filled(dtype, {tokens, n, embedding}, seed, placement, padding)),
        layer_output(filled(dtype, {tokens, embedding}, seed + 1, placement, padding)),
        h_post(filled(DType::kF32, {tokens, n}, seed + 2)),
        h_res(filled(DType::kF32, {tokens, n, n}, seed + 3)),
        x_next(dtype, {tokens, n, embedding}, placement, padding) {}

  PostArgs args() const {
    PostArgs a;
    a.spec.streams = x.tensor().shape[1];
    a.x = x;
    a.layer_output = layer_output;
    a.h_post = h_post;
    a.h_res = h_res;
    a.x_next = x_next;
    return a;
  }
};

class PostKernels : public testing::TestWithParam<PostKernel> {
 protected:
  DType dtype() const { return GetParam().dtype; }
  void run(const PostArgs& args, bool streaming) const {
    run_kernel(GetParam(), args, args.x.shape[0], streaming);
  }
};

// x_next[j] = x[j - 1] + h_post[j] y: neither symmetric nor its own transpose.
TEST_P(PostKernels, CyclicPermutationByHand) {
  const Buffer x = listed(dtype(), {1, 4, 1}, {1, 2, 3, 4});
  const Buffer y = listed(dtype(), {1, 1}, {0.5});
  const Buffer h_post = listed(DType::kF32, {1, 4}, {10, 20, 30, 40});
  const Buffer h_res = listed(DType::kF32, {1, 4, 4},
                              {0, 1, 0, 0,  //
                               0, 0, 1, 0,  //
                               0, 0, 0, 1,  //
                               1, 0, 0, 0});
  Buffer x_next(dtype(), {1, 4, 1});
  PostArgs a;
  a.x = x;
  a.layer_output = y;
  a.h_post = h_post;
  a.h_res = h_res;
  a.x_next = x_next;
  run(a, false);
  EXPECT_EQ(doubles(x_next), (std::vector<double>{9, 11, 17, 23}));
}

TEST_P(PostKernels, IdentityWithoutBranchReturnsX) {
  Problem p(dtype(), 2, 4, 301, 17);
  for (int64_t t = 0; t < 2; ++t) {
    for (int64_t i = 0; i < 4; ++i) {
      p.h_post.tensor().store(0, t, i);
      for (int64_t j = 0; j < 4; ++j) p.h_res.tensor().store(i == j ? 1 : 0, t, i, j);
    }
  }
  for (const bool streaming : {false, true}) {
    p.x_next.poison();
    run(p.args(), streaming);
    EXPECT_TRUE(p.x_next.same_bits(p.x));
  }
}

TEST_P(PostKernels, PermutingOutputsPermutesTheResult) {
  constexpr int64_t kOrder[4] = {2, 0, 3, 1};
  Problem p(dtype(), 3, 4, 77, 23);
  run(p.args(), false);
  Problem q(dtype(), 3, 4, 77, 23);
  for (int64_t t = 0; t < 3; ++t) {
    for (int64_t j = 0; j < 4; ++j) {
      q.h_post.tensor().store(p.h_post.tensor().load(t, kOrder[j]), t, j);
      for (int64_t i = 0; i < 4; ++i) {
        q.h_res.tensor().store(p.h_res.tensor().load(t, i, kOrder[j]), t, i, j);
      }
    }
  }
  run(q.args(), false);
  for (int64_t t = 0; t < 3; ++t) {
    for (int64_t j = 0; j < 4; ++j) {
      for (int64_t d = 0; d < 77; ++d) {
        ASSERT_EQ(q.x_next.tensor().load(t, j, d), p.x_next.tensor().load(t, kOrder[j], d));
      }
    }
  }
}

TEST_P(PostKernels, EveryNumberOfStreams) {
  for (int64_t n = 1; n <= kMaxStreams; ++n) {
    for (const bool streaming : {false, true}) {
      Problem p(dtype(), 3, n, 70 + n, static_cast<uint64_t>(n));
      expect_right(p.args(), [&] { run(p.args(), streaming); }, "n = " + std::to_string(n));
      EXPECT_EQ(p.x_next.damage(), "");
    }
  }
}

// Inputs and outputs end where an unreadable page begins; what lies around them is NaN.
TEST_P(PostKernels, EveryTail) {
  for (const int64_t embedding : embeddings()) {
    for (const Placement placement :
         {Placement::kAligned, Placement::kShifted, Placement::kPageEnd}) {
      for (const bool streaming : {false, true}) {
        Problem p(dtype(), 2, 4, embedding, static_cast<uint64_t>(embedding), placement);
        expect_right(
            p.args(), [&] { run(p.args(), streaming); }, "D = " + std::to_string(embedding));
        EXPECT_EQ(p.x_next.damage(), "");
      }
    }
  }
}

TEST_P(PostKernels, Strides) {
  for (const Padding padding : {Padding{1, 0}, Padding{32, 64}, Padding{5, 3}}) {
    for (const bool streaming : {false, true}) {
      Problem p(dtype(), 4, 4, 96, 5, Placement::kShifted, padding);
      expect_right(p.args(), [&] { run(p.args(), streaming); }, "padded");
      EXPECT_EQ(p.x_next.damage(), "");
    }
  }
  Problem p(dtype(), 4, 4, 96, 6);
  PostArgs a = p.args();
  a.x = with_stride(with_stride(a.x, 0, 0), 1, 0);
  a.layer_output = with_stride(a.layer_output, 0, 0);
  expect_right(a, [&] { run(a, true); }, "expanded");
}

TEST_P(PostKernels, InPlaceIsTheSame) {
  for (const int64_t n : {2, 3, 4, 8, 11}) {
    for (const int64_t embedding : {1, 33, 128, 700}) {
      Problem p(dtype(), 3, n, embedding, 9);
      run(p.args(), true);
      PostArgs in_place = p.args();
      in_place.x_next = in_place.x;
      run(in_place, false);
      EXPECT_TRUE(p.x.same_bits(p.x_next)) << n << ' ' << embedding;
    }
  }
}

TEST_P(PostKernels, GatesAreRoundedWhereAsked) {
  Problem p(dtype(), 3, 4, 40, 31);
  for (const bool post : {false, true}) {
    for (const bool res : {false, true}) {
      PostArgs a = p.args();
      a.spec.h_post_precision = post ? GatePrecision::kActivation : GatePrecision::kFloat32;
      a.spec.h_res_precision = res ? GatePrecision::kActivation : GatePrecision::kFloat32;
      p.x_next.poison();
      expect_right(a, [&] { run(a, false); }, "rounded gates");
    }
  }
}

// A NaN of any payload, in a feature or in a gate, reaches its own token and no other.
TEST_P(PostKernels, NanStaysInItsToken) {
  for (const uint32_t payload : {0x7fffffffu, 0x7f800001u, 0xffffffffu, 0x7fc00000u}) {
    for (const bool in_gate : {false, true}) {
      Problem clean(dtype(), 3, 4, 200, 41), p(dtype(), 3, 4, 200, 41);
      run(clean.args(), false);
      if (in_gate) {
        *p.h_res.tensor().at<uint32_t>(1, 2, 3) = payload;
      } else {
        p.x.tensor().store(std::bit_cast<float>(payload), 1, 2, 150);
      }
      run(p.args(), true);
      for (int64_t t = 0; t < 3; ++t) {
        for (int64_t j = 0; j < 4; ++j) {
          for (int64_t d = 0; d < 200; ++d) {
            const double got = p.x_next.tensor().load(t, j, d);
            if (t == 1 && (in_gate ? j == 3 : d == 150)) {
              ASSERT_TRUE(got != got) << j << ' ' << d;
            } else {
              ASSERT_EQ(got, clean.x_next.tensor().load(t, j, d)) << t << ' ' << j << ' ' << d;
            }
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, PostKernels, testing::ValuesIn(available(post_kernels())),
                         kernel_name<PostKernel>);

TEST(Post, SameBitsForEveryExecutorAndTuning) {
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32, DType::kF64}) {
    Problem p(dtype, 23, 4, 97, 3);
    if (dtype == DType::kF64) {
      p.h_post = filled(DType::kF64, {23, 4}, 5);
      p.h_res = filled(DType::kF64, {23, 4, 4}, 6);
    }
    ASSERT_TRUE(post(p.args(), Runtime{}).ok());
    for (const Environment& e : environments()) {
      Buffer again(dtype, {23, 4, 97});
      PostArgs a = p.args();
      a.x_next = again;
      ASSERT_TRUE(post(a, e.runtime()).ok());
      EXPECT_TRUE(again.same_bits(p.x_next)) << e.name;
    }
  }
}

TEST(Post, RunsTheRowThatTheCeilingAllows) {
  Problem p(DType::kF16, 2, 4, 40, 3);
  for (const PostKernel& kernel : available(post_kernels())) {
    if (kernel.dtype != DType::kF16) continue;
    Runtime runtime;
    runtime.ceiling = kernel.isa;
    const int64_t before = calls_of(kernel.name);
    ASSERT_TRUE(post(p.args(), runtime).ok());
    EXPECT_EQ(calls_of(kernel.name), before + 1) << kernel.name;
  }
}

TEST(Post, NoTokensIsNothing) {
  PostArgs a;
  a.x = make_tensor(nullptr, DType::kBF16, 3, 0, 4, 8);
  a.layer_output = make_tensor(nullptr, DType::kBF16, 2, 0, 8);
  a.h_post = make_tensor(nullptr, DType::kF32, 2, 0, 4);
  a.h_res = make_tensor(nullptr, DType::kF32, 3, 0, 4, 4);
  a.x_next = make_tensor(nullptr, DType::kBF16, 3, 0, 4, 8);
  const Status status = post(a, Runtime{});
  EXPECT_TRUE(status.ok()) << status.message;
}

}  // namespace
}  // namespace mhc::streaming
