#include "kernels/spread/spread.h"

#include <cmath>

#include "kernels/common/streaming_test.h"

namespace mhc::streaming {
namespace {

struct Problem {
  Buffer source, weights, x, out, d_weights;

  Problem(DType dtype, int64_t tokens, int64_t n, int64_t embedding, uint64_t seed,
          Placement placement = Placement::kAligned, Padding padding = {})
      : source(filled(dtype, {tokens, embedding}, seed, placement, padding)),
        weights(filled(gate(dtype), {tokens, n}, seed + 1)),
        x(filled(dtype, {tokens, n, embedding}, seed + 2, placement, padding)),
        out(dtype, {tokens, n, embedding}, placement, padding),
        d_weights(gate(dtype), {tokens, n}) {}

  static DType gate(DType dtype) { return dtype == DType::kF64 ? dtype : DType::kF32; }

  SpreadArgs args() const {
    SpreadArgs a;
    a.streams = x.tensor().shape[1];
    a.source = source;
    a.weights = weights;
    a.x = x;
    a.out = out;
    a.d_weights = d_weights;
    return a;
  }
  void expect_undamaged() const {
    EXPECT_EQ(out.damage(), "");
    EXPECT_EQ(d_weights.damage(), "");
  }
};

class SpreadKernels : public testing::TestWithParam<SpreadKernel> {
 protected:
  DType dtype() const { return GetParam().dtype; }
  void run(const SpreadArgs& args, bool streaming) const {
    run_kernel(GetParam(), args, args.source.shape[0], streaming);
  }
};

TEST_P(SpreadKernels, ByHand) {
  const Buffer source = listed(dtype(), {1, 2}, {3, 5});
  const Buffer weights = listed(DType::kF32, {1, 3}, {1, -2, 0.5});
  const Buffer x = listed(dtype(), {1, 3, 2}, {1, 2, 3, 4, 5, 6});
  Buffer out(dtype(), {1, 3, 2}), d_weights(DType::kF32, {1, 3});
  SpreadArgs a;
  a.streams = 3;
  a.scale = 2;
  a.source = source;
  a.weights = weights;
  a.x = x;
  a.out = out;
  a.d_weights = d_weights;
  run(a, false);
  EXPECT_EQ(doubles(out), (std::vector<double>{6, 10, -12, -20, 3, 5}));
  EXPECT_EQ(doubles(d_weights), (std::vector<double>{13, 29, 45}));
}

// expand is a copy: -0 stays -0, and what lies behind D stays as it is.
TEST_P(SpreadKernels, ExpandCopies) {
  for (const bool streaming : {false, true}) {
    for (const int64_t n : {1, 2, 3, 4, 8, 16}) {
      Problem p(dtype(), 3, n, 320, 7);
      for (int64_t d = 0; d < 320; d += 3) p.source.tensor().store(-0.0, 1, d);
      SpreadArgs a = p.args();
      a.weights = a.x = a.d_weights = Tensor{};
      run(a, streaming);
      for (int64_t t = 0; t < 3; ++t) {
        for (int64_t i = 0; i < n; ++i) {
          for (int64_t d = 0; d < 320; ++d) {
            const double got = p.out.tensor().load(t, i, d), want = p.source.tensor().load(t, d);
            ASSERT_EQ(got, want);
            ASSERT_EQ(std::signbit(got), std::signbit(want)) << t << ' ' << i << ' ' << d;
          }
        }
      }
      p.expect_undamaged();
    }
  }
}

TEST_P(SpreadKernels, EveryNumberOfStreams) {
  for (int64_t n = 1; n <= kMaxStreams; ++n) {
    for (const bool streaming : {false, true}) {
      Problem p(dtype(), 3, n, 520 + n, static_cast<uint64_t>(n));
      expect_right(p.args(), [&] { run(p.args(), streaming); }, "n = " + std::to_string(n));
      p.expect_undamaged();
    }
  }
}

TEST_P(SpreadKernels, EveryTail) {
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

TEST_P(SpreadKernels, EverySubset) {
  Problem all(dtype(), 3, 4, 600, 51);
  run(all.args(), false);
  for (int subset = 0; subset < 4; ++subset) {
    Problem p(dtype(), 3, 4, 600, 51);
    SpreadArgs a = p.args();
    if ((subset & 1) == 0) a.out = Tensor{};
    if ((subset & 2) == 0) a.d_weights = a.x = Tensor{};
    run(a, true);
    const Problem untouched(dtype(), 3, 4, 600, 51);
    EXPECT_TRUE(p.out.same_bits((subset & 1) != 0 ? all.out : untouched.out)) << subset;
    EXPECT_TRUE(p.d_weights.same_bits((subset & 2) != 0 ? all.d_weights : untouched.d_weights))
        << subset;
  }
}

TEST_P(SpreadKernels, InPlaceIsTheSame) {
  for (const int64_t n : {1, 2, 3, 4, 8, 11}) {
    for (const int64_t embedding : {1, 33, 128, 1100}) {
      Problem apart(dtype(), 3, n, embedding, 9);
      run(apart.args(), true);
      Problem p(dtype(), 3, n, embedding, 9);
      SpreadArgs a = p.args();
      a.out = a.x;
      run(a, false);
      EXPECT_TRUE(p.x.same_bits(apart.out)) << n << ' ' << embedding;
      EXPECT_TRUE(p.d_weights.same_bits(apart.d_weights)) << n << ' ' << embedding;
    }
  }
}

TEST_P(SpreadKernels, PlacementChangesNoBit) {
  Problem first(dtype(), 2, 4, 1300, 19);
  run(first.args(), false);
  for (const Placement placement :
       {Placement::kAligned, Placement::kShifted, Placement::kPageEnd}) {
    for (const Padding padding : {Padding{}, Padding{12, 0}, Padding{7, 9}}) {
      Problem p(dtype(), 2, 4, 1300, 19, placement, padding);
      run(p.args(), true);
      EXPECT_TRUE(p.out.same_bits(first.out));
      EXPECT_TRUE(p.d_weights.same_bits(first.d_weights));
      p.expect_undamaged();
    }
  }
}

TEST_P(SpreadKernels, WeightsScaleAndPrecision) {
  for (const bool weighted : {false, true}) {
    for (const double scale : {1.0, 1.0 / 3.0, -2.0}) {
      for (const GatePrecision precision : {GatePrecision::kFloat32, GatePrecision::kActivation}) {
        Problem p(dtype(), 3, 3, 50, 13);
        SpreadArgs a = p.args();
        if (!weighted) a.weights = Tensor{};
        a.scale = scale;
        a.weights_precision = precision;
        expect_right(a, [&] { run(a, false); }, "scale " + std::to_string(scale));
      }
    }
  }
}

TEST_P(SpreadKernels, ExpandedSource) {
  Problem p(dtype(), 4, 4, 200, 61);
  SpreadArgs a = p.args();
  a.source = with_stride(a.source, 0, 0);
  expect_right(a, [&] { run(a, true); }, "one source for all tokens");
}

// As in post_backward_test.cc: exact in blocks, not in one chain.
TEST_P(SpreadKernels, LongSumsAreSummedInBlocks) {
  constexpr int64_t kEmbedding = 1 << 18;
  constexpr double kFactor = 1 + 0x1p-7;
  Problem p(dtype(), 1, 1, kEmbedding, 71);
  for (int64_t d = 0; d < kEmbedding; ++d) {
    p.source.tensor().store(kFactor, 0, d);
    p.x.tensor().store(kFactor, 0, 0, d);
  }
  run(p.args(), false);
  EXPECT_EQ(p.d_weights.tensor().load(0, 0), kFactor * kFactor * kEmbedding);
}

INSTANTIATE_TEST_SUITE_P(Rows, SpreadKernels, testing::ValuesIn(available(spread_kernels())),
                         kernel_name<SpreadKernel>);

TEST(Spread, SameBitsForEveryExecutorAndTuning) {
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32, DType::kF64}) {
    Problem first(dtype, 23, 4, 600, 3);
    ASSERT_TRUE(spread(first.args(), Runtime{}).ok());
    for (const Environment& e : environments()) {
      Problem p(dtype, 23, 4, 600, 3);
      ASSERT_TRUE(spread(p.args(), e.runtime()).ok());
      EXPECT_TRUE(p.out.same_bits(first.out)) << e.name;
      EXPECT_TRUE(p.d_weights.same_bits(first.d_weights)) << e.name;
    }
  }
}

TEST(Spread, RunsTheRowThatTheCeilingAllows) {
  Problem p(DType::kBF16, 2, 4, 40, 3);
  for (const SpreadKernel& kernel : available(spread_kernels())) {
    if (kernel.dtype != DType::kBF16) continue;
    Runtime runtime;
    runtime.ceiling = kernel.isa;
    const int64_t before = calls_of(kernel.name);
    ASSERT_TRUE(spread(p.args(), runtime).ok());
    EXPECT_EQ(calls_of(kernel.name), before + 1) << kernel.name;
  }
}

}  // namespace
}  // namespace mhc::streaming
