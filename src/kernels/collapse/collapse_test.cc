#include "kernels/collapse/collapse.h"

#include <cmath>

#include "kernels/common/streaming_test.h"

namespace mhc::streaming {
namespace {

struct Problem {
  Buffer x, weights, out;

  Problem(DType dtype, int64_t tokens, int64_t n, int64_t embedding, uint64_t seed,
          Placement placement = Placement::kAligned, Padding padding = {})
      : x(filled(dtype, {tokens, n, embedding}, seed, placement, padding)),
        weights(filled(dtype == DType::kF64 ? dtype : DType::kF32, {tokens, n}, seed + 1)),
        out(dtype, {tokens, embedding}, placement, padding) {}

  CollapseArgs args() const {
    CollapseArgs a;
    a.x = x;
    a.weights = weights;
    a.out = out;
    return a;
  }
};

class CollapseKernels : public testing::TestWithParam<CollapseKernel> {
 protected:
  DType dtype() const { return GetParam().dtype; }
  void run(const CollapseArgs& args, bool streaming) const {
    run_kernel(GetParam(), args, args.x.shape[0], streaming);
  }
};

TEST_P(CollapseKernels, ByHand) {
  const Buffer x = listed(dtype(), {2, 3, 1}, {1, 2, 3, 4, 5, 6});
  const Buffer weights = listed(DType::kF32, {2, 3}, {1, 10, 100, 0.5, 0.25, 0.125});
  Buffer out(dtype(), {2, 1});
  CollapseArgs a;
  a.x = x;
  a.weights = weights;
  a.out = out;
  run(a, false);
  EXPECT_EQ(out.tensor().load(0, 0), dtype() == DType::kBF16 ? 320 : 321);  // bf16 holds 8 bits
  EXPECT_EQ(out.tensor().load(1, 0), 4);
  a.weights = Tensor{};
  a.scale = 0.5;
  run(a, false);
  EXPECT_EQ(doubles(out), (std::vector<double>{3, 7.5}));
}

TEST_P(CollapseKernels, EveryNumberOfStreams) {
  for (int64_t n = 1; n <= kMaxStreams; ++n) {
    for (const bool streaming : {false, true}) {
      Problem p(dtype(), 3, n, 70 + n, static_cast<uint64_t>(n));
      expect_right(p.args(), [&] { run(p.args(), streaming); }, "n = " + std::to_string(n));
      EXPECT_EQ(p.out.damage(), "");
    }
  }
}

TEST_P(CollapseKernels, EveryTail) {
  for (const int64_t embedding : embeddings()) {
    for (const Placement placement :
         {Placement::kAligned, Placement::kShifted, Placement::kPageEnd}) {
      for (const bool streaming : {false, true}) {
        Problem p(dtype(), 2, 4, embedding, static_cast<uint64_t>(embedding), placement);
        expect_right(
            p.args(), [&] { run(p.args(), streaming); }, "D = " + std::to_string(embedding));
        EXPECT_EQ(p.out.damage(), "");
      }
    }
  }
}

TEST_P(CollapseKernels, WeightsScaleAndPrecision) {
  for (const bool weighted : {false, true}) {
    for (const double scale : {1.0, 1.0 / 3.0, -2.0}) {
      for (const GatePrecision precision : {GatePrecision::kFloat32, GatePrecision::kActivation}) {
        Problem p(dtype(), 3, 3, 50, 13);
        CollapseArgs a = p.args();
        if (!weighted) a.weights = Tensor{};
        a.scale = scale;
        a.weights_precision = precision;
        expect_right(a, [&] { run(a, false); }, "scale " + std::to_string(scale));
      }
    }
  }
}

TEST_P(CollapseKernels, Strides) {
  for (const Padding padding : {Padding{1, 0}, Padding{32, 64}, Padding{5, 3}}) {
    Problem p(dtype(), 4, 4, 96, 5, Placement::kShifted, padding);
    expect_right(p.args(), [&] { run(p.args(), true); }, "padded");
    EXPECT_EQ(p.out.damage(), "");
  }
  for (const int32_t dimension : {0, 1}) {
    Problem p(dtype(), 4, 4, 96, 6);
    CollapseArgs a = p.args();
    a.x = with_stride(a.x, dimension, 0);
    expect_right(a, [&] { run(a, true); }, "expanded");
  }
}

// One stream of weight 1 is a copy: -0 stays -0.
TEST_P(CollapseKernels, OneStreamIsACopy) {
  Problem p(dtype(), 2, 1, 301, 7);
  for (int64_t d = 0; d < 301; d += 3) p.x.tensor().store(-0.0, 0, 0, d);
  CollapseArgs a = p.args();
  a.weights = Tensor{};
  run(a, false);
  for (int64_t d = 0; d < 301; ++d) {
    const double got = p.out.tensor().load(0, d), want = p.x.tensor().load(0, 0, d);
    ASSERT_EQ(got, want);
    ASSERT_EQ(std::signbit(got), std::signbit(want)) << d;
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, CollapseKernels, testing::ValuesIn(available(collapse_kernels())),
                         kernel_name<CollapseKernel>);

TEST(Collapse, SameBitsForEveryExecutorAndTuning) {
  for (const DType dtype : {DType::kBF16, DType::kF16, DType::kF32, DType::kF64}) {
    Problem first(dtype, 23, 4, 97, 3);
    ASSERT_TRUE(collapse(first.args(), Runtime{}).ok());
    for (const Environment& e : environments()) {
      Problem p(dtype, 23, 4, 97, 3);
      ASSERT_TRUE(collapse(p.args(), e.runtime()).ok());
      EXPECT_TRUE(p.out.same_bits(first.out)) << e.name;
    }
  }
}

TEST(Collapse, RunsTheRowThatTheCeilingAllows) {
  Problem p(DType::kBF16, 2, 4, 40, 3);
  for (const CollapseKernel& kernel : available(collapse_kernels())) {
    if (kernel.dtype != DType::kBF16) continue;
    Runtime runtime;
    runtime.ceiling = kernel.isa;
    const int64_t before = calls_of(kernel.name);
    ASSERT_TRUE(collapse(p.args(), runtime).ok());
    EXPECT_EQ(calls_of(kernel.name), before + 1) << kernel.name;
  }
}

}  // namespace
}  // namespace mhc::streaming
