#pragma once
// The kinds of fault that implementations of this operation have had, each as the smallest input
// that shows it, on every kernel row. Where each kind is tested, here if no other file is named:
//
// - h_res transposed: TransposedMatrix; random gates without symmetry in every case list
// - slice order, lost factor 2: OrderOfSlices
// - mean over D instead of n*D: MeanOverAllFeatures
// - eps in the wrong place or shared: SeparateEps; each kind of eps goes round in the case lists
// - sinkhorn variant mixed up: SinkhornVariant
// - converged-gradient shortcut: iterations 1, 2, 3, 20 in the case lists; kernels_peaked_test
// - exp without max: HugeLogits, HugeLogitsBackward
// - overflow at real gradient scale: LargeCotangents in kernels_peaked_test
// - peaked softmax and normalisation backward: kernels_peaked_test
// - sigmoid derivative, saturation tested absolutely: SaturatedGates in kernels_peaked_test
// - NaN swallowed or spread: NanStaysInItsToken, LanesWithoutATokenReachNoSum
// - approximate rsqrt: ZeroTinyAndInfiniteTokens, MeanSquareThatIsFlushed
// - bf16 partial sums: K = 28672 in the size lists; OneBlockOfALongSum in verify/teeth_test
// - gates in the activation type: bounds of about 1e-6 on the gates of bf16 tokens, everywhere
// - mixed parameter dtypes: alpha has another type than phi and bias in every case
// - sizes: the size lists
// - int32 wrap: kernels_large_test
// - strides and alignment: placements, padding and stride 0 in the case lists
// - stale or unzeroed accumulators: kernels_bitwise_test runs twice; accumulate in the case lists
// - optional argument dropped on one path: the products of options in the case lists
// - parameter silently ignored: IterationsStreamsAndZeroEps, PackedForAnotherPrecision; what is
//   refused is in base/check_test and api/bad_input_test
// - frozen inputs: output masks in the case lists
// - batch dependence: Batches and Tuning in kernels_bitwise_test
// - floating-point mode of the worker: kernels_modes_test; Subnormals
// - NaN in narrowing, max and clamp: NanPayloads, NanLogit
// - reading past the end: OddSizesAtTheEndOfMemory; page ends in the case lists
// - overflow of sum x^2: OverflowOfTheSumOfSquares
// - accumulate into bf16: AccumulatingIntoBf16IsRefused
// - cosine as only judge: elementwise bounds everywhere; DxByItsParts
// - res gradient on equal streams: EqualStreamsHaveNoResGradient
// - ISA: the case lists run each row by name, and its call is counted
// - vacuous tests: verify/teeth_test; tests/mutation
//
// Replicated parameters, sharded arrays and custom calls concern the bindings; fork, affinity and
// nested pools are in base/pool_test.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "manifold/identity.h"
#include "manifold/permutation.h"
#include "manifold/sinkhorn.h"
#include "manifold/unconstrained.h"
#include "verify/cases_test.h"
#include "verify/filled.h"
#include "verify/problem.h"

namespace mhc::verify {

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

// One token or a few through pre, all outputs f32.
struct Coefficients {
  Spec spec;
  Buffer x, phi, alpha, bias;
  Buffer layer_input, z, inv_rms, h_pre, h_post, h_res;
  const void* packed_phi = nullptr;
  size_t packed_phi_bytes = 0;

  Coefficients(Spec s, int64_t tokens, int64_t embedding, DType dtype = DType::kF32) : spec(s) {
    const int64_t n = s.streams, m = gate_layout(s, GateKind::kSite).coefficients();
    x = filled(dtype, {tokens, n, embedding},
               std::vector<double>(static_cast<size_t>(tokens * n * embedding), 1.0));
    phi = filled(DType::kF32, {m, n, embedding},
                 std::vector<double>(static_cast<size_t>(m * n * embedding), 0.0));
    alpha = filled(DType::kF32, {3}, {1, 1, 1});
    bias = filled(DType::kF32, {m}, std::vector<double>(static_cast<size_t>(m), 0.0));
    layer_input = Buffer(dtype, {tokens, embedding});
    z = Buffer(DType::kF32, {tokens, m});
    inv_rms = Buffer(DType::kF32, {tokens});
    h_pre = Buffer(DType::kF32, {tokens, n});
    h_post = Buffer(DType::kF32, {tokens, n});
    h_res = Buffer(DType::kF32, {tokens, n, n});
  }

  void run(const Runtime& runtime) {
    const Status status = call(runtime);
    ASSERT_TRUE(status.ok()) << status.message;
  }

  Status call(const Runtime& runtime) {
    PreArgs a;
    a.spec = spec;
    a.x = x;
    a.params = {phi, alpha, bias, {}};
    a.packed_phi = packed_phi;
    a.packed_phi_bytes = packed_phi_bytes;
    a.layer_input = layer_input;
    a.z = z;
    a.inv_rms = inv_rms;
    a.h_pre = h_pre;
    a.h_post = h_post;
    a.h_res = h_res;
    const Tensor& t = x.tensor();
    const size_t bytes = pre_workspace_bytes(
        spec, GateKind::kSite, {t.shape[0], t.shape[1], t.shape[2]}, t.dtype, runtime);
    const Buffer workspace(DType::kF32, {static_cast<int64_t>(bytes / 4 + 1)});
    a.workspace = {workspace.tensor().data, bytes};
    return pre(a, runtime);
  }
};

inline Spec spec_of(int32_t manifold, int64_t streams = 4) {
  Spec s;
  s.streams = streams;
  s.manifold = manifold;
  return s;
}

// What is expected of one token of a per-token tensor.
inline Expected row_of(const Expected& all, int64_t token) {
  std::vector<int64_t> shape = all.shape;
  shape[0] = 1;
  Expected row(all.name, shape);
  const size_t first = static_cast<size_t>(token) * row.value.size();
  for (size_t k = 0; k < row.value.size(); ++k) {
    row.value[k] = all.value[first + k];
    row.bound[k] = all.bound[first + k];
  }
  return row;
}

inline double sigmoid(double l) { return 1 / (1 + std::exp(-l)); }

class Faults : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    ASSERT_EQ(missing_isas(), "");
    here_ = is_available(GetParam());
    runtime_ = runtime_of(GetParam());
  }
  // The problem's results within its bounds after its inputs were changed.
  void expect_right(const Case& c, Problem* problem) {
    if (!here_) return;
    problem->changed();
    const std::vector<Expected> expected =
        problem->expect(splits_phi(c, expected_row(c, runtime_)));
    const Status status = problem->run(runtime_);
    ASSERT_TRUE(status.ok()) << status.message;
    EXPECT_EQ(problem->damage(), "");
    const std::vector<Output> outputs = problem->outputs();
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Comparison k = compare(outputs[i].tensor, expected[i]);
      EXPECT_TRUE(k.ok()) << describe(c) << "\n" << k.wrong << " wrong, first " << k.first_wrong;
    }
  }
  bool here_ = false;
  Runtime runtime_;
};

}  // namespace mhc::verify
