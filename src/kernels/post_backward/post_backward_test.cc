#include "kernels/post_backward/post_backward.h"

#include <bit>

#include "kernels/common/streaming_test.h"

#if defined(MHC_HAVE_X86)
namespace mhc::avx512bf16_emulated {
void post_backward_bf16(const PostBackwardArgs& args, int64_t begin, int64_t end, bool streaming);
}
#endif

namespace mhc::streaming {
namespace {

// The table's rows, and the schedule of the dot product where the processor lacks the instruction.
std::vector<PostBackwardKernel> tested_kernels() {
  std::vector<PostBackwardKernel> rows = available(post_backward_kernels());
#if defined(MHC_HAVE_X86)
  if (is_available(Isa::kAvx512)) {
    rows.push_back({Isa::kAvx512, DType::kBF16, "post_backward_avx512bf16_emulated",
                    avx512bf16_emulated::post_backward_bf16});
  }
#endif
  return rows;
}

struct Problem {
  Buffer g, x, layer_output, h_post, h_res, d_layer_output, d_h_post, d_h_res, d_x;

  Problem(DType dtype, int64_t tokens, int64_t n, int64_t embedding, uint64_t seed,
          Placement placement = Placement::kAligned, Padding padding = {})
      : g(filled(dtype, {tokens, n, embedding}, seed, placement, padding)),
        x(filled(dtype, {tokens, n, embedding}, seed + 1, placement, padding)),
        layer_output(filled(dtype, {tokens, embedding}, seed + 2, placement, padding)),
        h_post(filled(gate(dtype), {tokens, n}, seed + 3)),
        h_res(filled(gate(dtype), {tokens, n, n}, seed + 4)),
        d_layer_output(dtype, {tokens, embedding}, placement, padding),
        d_h_post(gate(dtype), {tokens, n}),
        d_h_res(gate(dtype), {tokens, n, n}),
        d_x(dtype, {tokens, n, embedding}, placement, padding) {}

  static DType gate(DType dtype) { return dtype == DType::kF64 ? dtype : DType::kF32; }

  PostBackwardArgs args() const {
    PostBackwardArgs a;
    a.spec.streams = g.tensor().shape[1];
    a.d_x_next = g;
    a.x = x;
    a.layer_output = layer_output;
    a.h_post = h_post;
    a.h_res = h_res;
    a.d_layer_output = d_layer_output;
    a.d_h_post = d_h_post;
    a.d_h_res = d_h_res;
    a.d_x = d_x;
    return a;
  }
  void poison() {
    for (Buffer* b : {&d_layer_output, &d_h_post, &d_h_res, &d_x}) b->poison();
  }
  bool same_results(const Problem& other) const {
    return d_layer_output.same_bits(other.d_layer_output) && d_h_post.same_bits(other.d_h_post) &&
           d_h_res.same_bits(other.d_h_res) && d_x.same_bits(other.d_x);
  }
  void expect_undamaged() const {
    for (const Buffer* b : {&d_layer_output, &d_h_post, &d_h_res, &d_x}) {
      EXPECT_EQ(b->damage(), "");
    }
  }
};

class PostBackwardKernels : public testing::TestWithParam<PostBackwardKernel> {
 protected:
  DType dtype() const { return GetParam().dtype; }
  void run(const PostBackwardArgs& args, bool streaming) const {
    run_kernel(GetParam(), args, args.d_x_next.shape[0], streaming);
  }
};

TEST_P(PostBackwardKernels, ByHand) {
  const Buffer g = listed(dtype(), {1, 2, 2}, {1, 2, 3, 4});
  const Buffer x = listed(dtype(), {1, 2, 2}, {5, 6, 7, 8});
  const Buffer y = listed(dtype(), {1, 2}, {9, 10});
  const Buffer h_post = listed(DType::kF32, {1, 2}, {2, 3});
  const Buffer h_res = listed(DType::kF32, {1, 2, 2}, {0, 1, 2, 0});
  Buffer d_y(dtype(), {1, 2}), d_x(dtype(), {1, 2, 2});
  Buffer d_h_post(DType::kF32, {1, 2}), d_h_res(DType::kF32, {1, 2, 2});
  PostBackwardArgs a;
  a.spec.streams = 2;
  a.d_x_next = g;
  a.x = x;
  a.layer_output = y;
  a.h_post = h_post;
  a.h_res = h_res;
  a.d_layer_output = d_y;
  a.d_h_post = d_h_post;
  a.d_h_res = d_h_res;
  a.d_x = d_x;
  run(a, false);
  EXPECT_EQ(doubles(d_y), (std::vector<double>{2 * 1 + 3 * 3, 2 * 2 + 3 * 4}));
  EXPECT_EQ(doubles(d_h_post), (std::vector<double>{9 * 1 + 10 * 2, 9 * 3 + 10 * 4}));
  EXPECT_EQ(doubles(d_h_res), (std::vector<double>{17, 39, 23, 53}));
  EXPECT_EQ(doubles(d_x), (std::vector<double>{3, 4, 2, 4}));  // x_0 went to stream 1, x_1 to 0
}

TEST_P(PostBackwardKernels, EveryNumberOfStreams) {
  for (int64_t n = 1; n <= kMaxStreams; ++n) {
    for (const bool streaming : {false, true}) {
      Problem p(dtype(), 3, n, 520 + n, static_cast<uint64_t>(n));
      expect_right(p.args(), [&] { run(p.args(), streaming); }, "n = " + std::to_string(n));
      p.expect_undamaged();
    }
  }
}

TEST_P(PostBackwardKernels, EveryTail) {
  for (const int64_t embedding : embeddings()) {
    for (const Placement placement :
         {Placement::kAligned, Placement::kShifted, Placement::kPageEnd}) {
      for (const bool streaming : {false, true}) {
        Problem p(dtype(), 2, 4, embedding, static_cast<uint64_t>(embedding), placement);
        expect_right(
            p.args(), [&] { run(p.args(), streaming); }, "D = " + std::to_string(embedding));
        p.expect_undamaged();
      }
    }
  }
}

// What is not asked for is neither written nor are its inputs needed; the rest keeps its bits.
TEST_P(PostBackwardKernels, EverySubset) {
  Problem all(dtype(), 3, 4, 600, 51);
  run(all.args(), false);
  for (int subset = 0; subset < 16; ++subset) {
    Problem p(dtype(), 3, 4, 600, 51);
    PostBackwardArgs a = p.args();
    if ((subset & 1) == 0) a.d_layer_output = a.h_post = Tensor{};
    if ((subset & 2) == 0) a.d_h_post = a.layer_output = Tensor{};
    if ((subset & 4) == 0) a.d_h_res = a.x = Tensor{};
    if ((subset & 8) == 0) a.d_x = a.h_res = Tensor{};
    run(a, true);
    const Problem untouched(dtype(), 3, 4, 600, 51);
    const auto expected = [&](int bit) -> const Problem& {
      return (subset & bit) != 0 ? all : untouched;
    };
    EXPECT_TRUE(p.d_layer_output.same_bits(expected(1).d_layer_output)) << subset;
    EXPECT_TRUE(p.d_h_post.same_bits(expected(2).d_h_post)) << subset;
    EXPECT_TRUE(p.d_h_res.same_bits(expected(4).d_h_res)) << subset;
    EXPECT_TRUE(p.d_x.same_bits(expected(8).d_x)) << subset;
  }
}

// Each alias alone and both: a pass that lags behind another may not read what that one overwrote.
TEST_P(PostBackwardKernels, InPlaceIsTheSame) {
  for (const int64_t n : {2, 3, 4, 8, 11}) {
    for (const int64_t embedding : {1, 33, 128, 1100}) {
      for (const Placement placement : {Placement::kAligned, Placement::kShifted}) {
        Problem apart(dtype(), 3, n, embedding, 9, placement);
        run(apart.args(), true);
        for (int aliases = 1; aliases < 4; ++aliases) {
          Problem p(dtype(), 3, n, embedding, 9, placement);
          PostBackwardArgs a = p.args();
          if ((aliases & 1) != 0) a.d_layer_output = a.layer_output;
          if ((aliases & 2) != 0) a.d_x = a.d_x_next;
          run(a, true);
          const Buffer& d_layer_output = (aliases & 1) != 0 ? p.layer_output : p.d_layer_output;
          const Buffer& d_x = (aliases & 2) != 0 ? p.g : p.d_x;
          EXPECT_TRUE(d_layer_output.same_bits(apart.d_layer_output)) << n << ' ' << embedding;
          EXPECT_TRUE(d_x.same_bits(apart.d_x)) << n << ' ' << embedding;
          EXPECT_TRUE(p.d_h_post.same_bits(apart.d_h_post)) << n << ' ' << embedding;
          EXPECT_TRUE(p.d_h_res.same_bits(apart.d_h_res)) << n << ' ' << embedding;
        }
      }
    }
  }
}

// The sums depend on the features alone: not on where rows lie, nor on the kind of stores.
TEST_P(PostBackwardKernels, PlacementChangesNoBit) {
  Problem first(dtype(), 2, 4, 1300, 19);
  run(first.args(), false);
  for (const Placement placement :
       {Placement::kAligned, Placement::kShifted, Placement::kPageEnd}) {
    for (const Padding padding : {Padding{}, Padding{12, 0}, Padding{7, 9}}) {
      Problem p(dtype(), 2, 4, 1300, 19, placement, padding);
      run(p.args(), true);
      EXPECT_TRUE(p.same_results(first));
      p.expect_undamaged();
    }
  }
}

TEST_P(PostBackwardKernels, ExpandedCotangent) {
  Problem p(dtype(), 4, 4, 200, 61);
  for (const int32_t dimension : {0, 1}) {
    PostBackwardArgs a = p.args();
    a.d_x_next = with_stride(a.d_x_next, dimension, 0);
    p.poison();
    expect_right(a, [&] { run(a, true); }, "expanded over " + std::to_string(dimension));
  }
}

TEST_P(PostBackwardKernels, GatesAreRoundedWhereAsked) {
  Problem p(dtype(), 3, 4, 40, 31);
  for (const bool post : {false, true}) {
    PostBackwardArgs a = p.args();
    a.spec.h_post_precision = post ? GatePrecision::kActivation : GatePrecision::kFloat32;
    a.spec.h_res_precision = post ? GatePrecision::kFloat32 : GatePrecision::kActivation;
    p.poison();
    expect_right(a, [&] { run(a, false); }, "rounded gates");
  }
}

TEST_P(PostBackwardKernels, NanStaysInItsToken) {
  Problem clean(dtype(), 3, 4, 600, 41), p(dtype(), 3, 4, 600, 41);
  run(clean.args(), true);
  p.g.tensor().store(std::numeric_limits<double>::quiet_NaN(), 1, 2, 599);
  run(p.args(), true);
  for (int64_t t = 0; t < 3; ++t) {
    for (int64_t j = 0; j < 4; ++j) {
      const double d_h_post = p.d_h_post.tensor().load(t, j);
      EXPECT_EQ(d_h_post != d_h_post, t == 1 && j == 2);
      for (int64_t i = 0; i < 4; ++i) {
        const double d_h_res = p.d_h_res.tensor().load(t, i, j);
        EXPECT_EQ(d_h_res != d_h_res, t == 1 && j == 2);
      }
      for (int64_t d = 0; d < 600; ++d) {
        const double d_x = p.d_x.tensor().load(t, j, d);
        if (t == 1 && d == 599) {
          ASSERT_TRUE(d_x != d_x);
        } else {
          ASSERT_EQ(d_x, clean.d_x.tensor().load(t, j, d));
        }
      }
    }
  }
}

// Equal terms of 15 bits: sums of 512 of them and sums of those are exact in f32, while one chain,
// even of every sixteenth term, outgrows its 24 bits.
TEST_P(PostBackwardKernels, LongSumsAreSummedInBlocks) {
  constexpr int64_t kEmbedding = 1 << 18;
  constexpr double kFactor = 1 + 0x1p-7;
  Problem p(dtype(), 1, 1, kEmbedding, 71);
  for (int64_t d = 0; d < kEmbedding; ++d) {
    p.g.tensor().store(kFactor, 0, 0, d);
    p.x.tensor().store(kFactor, 0, 0, d);
  }
  run(p.args(), false);
  EXPECT_EQ(p.d_h_res.tensor().load(0, 0, 0), kFactor * kFactor * kEmbedding);
}

INSTANTIATE_TEST_SUITE_P(Rows, PostBackwardKernels, testing::ValuesIn(tested_kernels()),
                         kernel_name<PostBackwardKernel>);

TEST(PostBackward, SameBitsForEveryExecutorAndTuning) {
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32, DType::kF64}) {
    Problem first(dtype, 23, 4, 600, 3);
    ASSERT_TRUE(post_backward(first.args(), Runtime{}).ok());
    for (const Environment& e : environments()) {
      Problem p(dtype, 23, 4, 600, 3);
      ASSERT_TRUE(post_backward(p.args(), e.runtime()).ok());
      EXPECT_TRUE(p.same_results(first)) << e.name;
    }
  }
}

#if defined(MHC_HAVE_X86)
TEST(PostBackward, EmulatedDotHasTheBitsOfTheInstruction) {
  const PostBackwardKernel& kernel = post_backward_kernels()[0];
  ASSERT_EQ(kernel.isa, Isa::kAvx512Bf16);
  if (!is_available(kernel.isa)) return;  // the emulation is then judged by the rows above alone
  Problem p(DType::kBF16, 3, 4, 1111, 5), q(DType::kBF16, 3, 4, 1111, 5);
  run_kernel(kernel, p.args(), 3, true);
  const FloatingPointPolicy policy;
  avx512bf16_emulated::post_backward_bf16(q.args(), 0, 3, false);
  EXPECT_TRUE(q.same_results(p));
}
#endif

TEST(PostBackward, RunsTheRowThatTheCeilingAllows) {
  Problem p(DType::kBF16, 2, 4, 40, 3);
  for (const PostBackwardKernel& kernel : available(post_backward_kernels())) {
    if (kernel.dtype != DType::kBF16) continue;
    Runtime runtime;
    runtime.ceiling = kernel.isa;
    const int64_t before = calls_of(kernel.name);
    ASSERT_TRUE(post_backward(p.args(), runtime).ok());
    EXPECT_EQ(calls_of(kernel.name), before + 1) << kernel.name;
  }
}

}  // namespace
}  // namespace mhc::streaming
