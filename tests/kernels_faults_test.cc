// The kinds of fault that implementations of this operation have had, each as the smallest input
// that shows it, on every kernel row. Where each kind is tested:
//
//   h_res transposed                          TransposedMatrix here; random non-symmetric gates in
//   every case list slice order, lost factor 2                OrderOfSlices mean over D instead of
//   n*D                MeanOverAllFeatures eps in the wrong place or shared          SeparateEps;
//   eps of each kind go round in the case lists sinkhorn variant mixed up SinkhornVariant
//   converged-gradient shortcut               iterations 1, 2, 3, 20 in the case lists;
//   kernels_peaked_test exp without max                           HugeLogits overflow at real
//   gradient scale           kernels_peaked_test LargeCotangents peaked softmax and normalisation
//   kernels_peaked_test sigmoid derivative; saturation            kernels_peaked_test
//   SaturatedGates NaN swallowed or spread                   NanStaysInItsToken approximate rsqrt
//   ZeroTinyAndInfiniteTokens bf16 partial sums                         K = 28672 in the size
//   lists; teeth_test OneBlockOfALongSum gates in the activation type              bounds of 1e-6
//   on gates of bf16 x in every case list mixed parameter dtypes                    bf16 and f32
//   parameters in the case lists (alpha stays f32) sizes                                     the
//   size lists int32 wrap                                kernels_large_test strides and alignment
//   placements, padding, broadcast cotangents in the case lists stale or unzeroed accumulators
//   kernels_bitwise_test runs twice; accumulate in the case lists optional argument dropped on one
//   path     the full products of the option lists parameter silently ignored
//   IterationsStreamsAndZeroEps; spec_test for refusals frozen inputs output masks in the option
//   lists batch dependence                          kernels_bitwise_test Batches, Tuning
//   floating-point mode of the worker         kernels_bitwise_test; Subnormals,
//   CallersModeIsRestored NaN in narrowing, max and clamp           NanPayloads, NanLogit reading
//   past the end                      OddSizesAtTheEndOfMemory; page-end placement in the case
//   lists overflow of sum x^2                       OverflowOfTheSumOfSquares accumulate into bf16
//   AccumulatingIntoBf16IsRefused cosine as only judge                      elementwise bounds
//   everywhere; DxByItsParts res gradient on equal streams EqualStreamsHaveNoResGradient ISA every
//   row's call is counted, or the case fails vacuous tests                             teeth_test;
//   tests/mutation
//
// Replicated parameters, sharded arrays and custom calls concern the bindings; fork and nested
// pools are in base/pool_test.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "manifold/identity.h"
#include "manifold/permutation.h"
#include "manifold/sinkhorn.h"
#include "manifold/unconstrained.h"
#include "verify/cases_test.h"
#include "verify/filled.h"
#include "verify/problem.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mhc::verify {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

// One token or a few through pre, all outputs f32.
struct Coefficients {
  Spec spec;
  Buffer x, phi, alpha, bias;
  Buffer layer_input, z, inv_rms, h_pre, h_post, h_res;

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
    PreArgs a;
    a.spec = spec;
    a.x = x;
    a.params = {phi, alpha, bias, {}};
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
    const Status status = pre(a, runtime);
    ASSERT_TRUE(status.ok()) << status.message;
  }
};

Spec spec_of(int32_t manifold, int64_t streams = 4) {
  Spec s;
  s.streams = streams;
  s.manifold = manifold;
  return s;
}

double sigmoid(double l) { return 1 / (1 + std::exp(-l)); }

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

TEST_P(Faults, TransposedMatrix) {
  if (!here_) return;
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    const Buffer x = filled(type, {1, 4, 1}, {1, 2, 3, 4}), y = filled(type, {1, 1}, {0});
    const Buffer h_post = filled(DType::kF32, {1, 4}, {0, 0, 0, 0});
    // Input i goes to output i + 1.
    const Buffer h_res =
        filled(DType::kF32, {1, 4, 4}, {0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0});
    const Buffer x_next(type, {1, 4, 1});
    PostArgs a;
    a.x = x;
    a.layer_output = y;
    a.h_post = h_post;
    a.h_res = h_res;
    a.x_next = x_next;
    ASSERT_TRUE(post(a, runtime_).ok());
    EXPECT_EQ(widen(x_next), (std::vector<double>{4, 1, 2, 3}));
  }
}

TEST_P(Faults, OrderOfSlices) {
  if (!here_) return;
  Coefficients c(spec_of(Unconstrained::id), 3, 5);
  for (int64_t k = 0; k < 24; ++k) c.bias.tensor().store(0.1 * static_cast<double>(k) - 1, k);
  c.run(runtime_);
  for (int64_t t = 0; t < 3; ++t) {
    for (int64_t i = 0; i < 4; ++i) {
      const double pre = sigmoid(0.1 * static_cast<double>(i) - 1),
                   post = sigmoid(0.1 * static_cast<double>(4 + i) - 1);
      EXPECT_NEAR(c.h_pre.tensor().load(t, i), pre + 1e-6, 3e-7);
      EXPECT_NEAR(c.h_post.tensor().load(t, i), 2 * post, 6e-7);
      for (int64_t j = 0; j < 4; ++j) {
        EXPECT_NEAR(c.h_res.tensor().load(t, i, j), 0.1 * static_cast<double>(8 + 4 * i + j) - 1,
                    3e-7);
      }
    }
  }
}

TEST_P(Faults, MeanOverAllFeatures) {
  if (!here_) return;
  Coefficients c(spec_of(Sinkhorn::id), 2, 8);
  c.spec.norm_eps = 0.5;
  c.run(runtime_);
  EXPECT_NEAR(c.inv_rms.tensor().load(1), 1 / std::sqrt(1.5), 2e-7);
  c.spec.norm_form = NormForm::kOutside;
  c.run(runtime_);
  EXPECT_NEAR(c.inv_rms.tensor().load(1), 1 / 1.5, 2e-7);
}

TEST_P(Faults, SeparateEps) {
  if (!here_) return;
  Coefficients c(spec_of(Sinkhorn::id), 2, 8);
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t d = 0; d < 8; ++d) {
      c.x.tensor().store(1e-4, 0, i, d);
      c.x.tensor().store(0, 1, i, d);
    }
  }
  c.spec.norm_eps = 1e-6;
  c.spec.pre_eps = 0.25;
  c.spec.manifold_options.eps = 0.1;
  c.spec.manifold_options.iterations = 1;
  c.run(runtime_);
  EXPECT_NEAR(c.inv_rms.tensor().load(0), 1 / std::sqrt(1e-8 + 1e-6), 2e-4);
  EXPECT_NEAR(c.inv_rms.tensor().load(1), 1000, 2e-4);
  EXPECT_NEAR(c.h_pre.tensor().load(0, 2), 0.75, 2e-7);
  EXPECT_NEAR(c.h_post.tensor().load(0, 2), 1, 2e-7);
  // Uniform logits: 1/4 + .1, over four of them + .1.
  EXPECT_NEAR(c.h_res.tensor().load(0, 1, 2), 0.35 / 1.5, 2e-7);
}

TEST_P(Faults, SinkhornVariant) {
  if (!here_) return;
  const double logits[16] = {0, 1, 2, 3, 1, 0, 0, 0, 0, 0, 2, 0, 3, 0, 0, 1};
  Coefficients c(spec_of(Sinkhorn::id), 1, 3);
  c.spec.manifold_options = {1, 0, 0.1};
  for (int64_t k = 0; k < 16; ++k) c.bias.tensor().store(logits[k], 8 + k);
  c.run(runtime_);
  EXPECT_NEAR(c.h_res.tensor().load(0, 0, 1), 0.20826, 1e-5);
  c.spec.matrix_order = MatrixOrder::kOutputInput;
  c.run(runtime_);
  EXPECT_NEAR(c.h_res.tensor().load(0, 0, 1), 0.30069, 1e-5);
}

TEST_P(Faults, HugeLogits) {
  if (!here_) return;
  for (const int32_t manifold : {Sinkhorn::id, Permutation::id, Unconstrained::id, Identity::id}) {
    for (const double size : {100.0, 1e4}) {
      Coefficients c(spec_of(manifold), 2, 5);
      const Tensor& bias = c.bias.tensor();
      for (int64_t k = 0; k < bias.shape[0]; ++k) bias.store(k % 3 == 0 ? size : -size, k);
      c.run(runtime_);
      for (const Buffer* b : {&c.h_pre, &c.h_post, &c.h_res, &c.layer_input}) {
        for (const double v : widen(*b))
          EXPECT_TRUE(std::isfinite(v)) << find_manifold(manifold)->name << size;
      }
      EXPECT_NEAR(c.h_pre.tensor().load(0, 0), 1, 2e-6);
      EXPECT_NEAR(c.h_pre.tensor().load(0, 1), 1e-6, 1e-12);
    }
  }
}

TEST_P(Faults, IterationsStreamsAndZeroEps) {
  for (const int32_t iterations : {1, 5}) {
    for (const Op op : {Op::kPre, Op::kPreBackward, Op::kCoefficientsBackward}) {
      Case c;
      c.op = op;
      c.dims = {5, 3, 17};
      c.spec.manifold_options = {iterations, 0, 0};
      c.spec.streams = 3;
      const auto problem = Problem::make(c);
      expect_right(c, problem.get());
    }
  }
}

// A NaN or inf reaches its own token's outputs and those sums over tokens that it is part of,
// nothing else.
TEST_P(Faults, NanStaysInItsToken) {
  for (const double bad : {kNan, kInf}) {
    for (const Op op :
         {Op::kPost, Op::kPostBackward, Op::kCollapse, Op::kSpread, Op::kPre, Op::kPreBackward}) {
      for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
        if (!here_) return;
        Case c;
        c.op = op;
        c.dims = {37, 4, 67};
        c.dtype = dtype;
        c.lazy = op != Op::kPostBackward;
        const auto problem = Problem::make(c);
        ASSERT_TRUE(problem->run(runtime_).ok());
        std::vector<std::vector<double>> before;
        for (const Output& o : problem->outputs()) before.push_back(widen(o.tensor));
        const char* input = op == Op::kSpread         ? "source"
                            : op == Op::kPostBackward ? "d_x_next"
                                                      : "x";
        const Tensor t = problem->input(input);
        t.store(bad, 19, t.rank == 3 ? 2 : 5, t.rank == 3 ? 31 : 0);
        problem->changed();
        ASSERT_TRUE(problem->run(runtime_).ok());
        const std::vector<Output> outputs = problem->outputs();
        bool reached = false;
        for (size_t k = 0; k < outputs.size(); ++k) {
          const std::vector<double> after = widen(outputs[k].tensor);
          const bool per_token = outputs[k].tensor.shape[0] == 37;
          const size_t row = after.size() / 37;
          for (size_t i = 0; i < after.size(); ++i) {
            if (per_token && i / row == 19) {
              reached = reached || !std::isfinite(after[i]);
            } else if (per_token) {
              ASSERT_EQ(after[i], before[k][i])
                  << describe(c) << " " << outputs[k].name << " element " << i;
            }
          }
          if (op == Op::kPreBackward && !per_token) {
            bool visible = false;
            for (const double v : after) visible = visible || !std::isfinite(v);
            EXPECT_TRUE(visible) << outputs[k].name << " hides it";
          }
        }
        EXPECT_TRUE(reached) << describe(c);
      }
    }
  }
}

TEST_P(Faults, NanLogit) {
  if (!here_) return;
  for (const int32_t manifold : {Sinkhorn::id, Permutation::id, Unconstrained::id}) {
    for (const int64_t where : {0, 5, 8, 13}) {
      Coefficients c(spec_of(manifold), 1, 5);
      c.bias.tensor().store(kNan, where);
      c.run(runtime_);
      bool seen = false;
      for (const Buffer* b : {&c.h_pre, &c.h_post, &c.h_res}) {
        for (const double v : widen(*b)) seen = seen || std::isnan(v);
      }
      EXPECT_TRUE(seen) << find_manifold(manifold)->name << " logit " << where;
    }
  }
}

// NaN of every payload stays NaN through a mix and its narrowing: no carry into the exponent, no
// lost mantissa.
TEST_P(Faults, NanPayloads) {
  if (!here_) return;
  const uint32_t payloads[] = {0x7fffffffu, 0x7f800001u, 0xffffffffu, 0xff800001u, 0x7fc00000u};
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    const int64_t count = 41;
    Buffer x = filled(type, {1, 4, count}, std::vector<double>(4 * 41, 1.0)),
           y = filled(type, {1, count}, std::vector<double>(41, 1.0));
    for (int64_t d = 0; d < count; ++d) {
      const uint32_t bits = payloads[d % 5];
      if (type == DType::kF32) *x.tensor().at<uint32_t>(0, 1, d) = bits;
      if (type == DType::kBF16)
        *x.tensor().at<uint16_t>(0, 1, d) = static_cast<uint16_t>(bits >> 16 | (bits & 1));
      if (type == DType::kF16) {
        *x.tensor().at<uint16_t>(0, 1, d) =
            static_cast<uint16_t>((bits >> 16 & 0x8000) | 0x7c00 | (d % 2 == 0 ? 0x3ff : 1));
      }
    }
    const Buffer h_post = filled(DType::kF32, {1, 4}, {1, 1, 1, 1});
    const Buffer h_res = filled(DType::kF32, {1, 4, 4}, std::vector<double>(16, 0.25));
    const Buffer x_next(type, {1, 4, count});
    PostArgs a;
    a.x = x;
    a.layer_output = y;
    a.h_post = h_post;
    a.h_res = h_res;
    a.x_next = x_next;
    ASSERT_TRUE(post(a, runtime_).ok());
    for (const double v : widen(x_next)) EXPECT_TRUE(std::isnan(v)) << name_of(type);
  }
}

TEST_P(Faults, ZeroTinyAndInfiniteTokens) {
  for (const double value : {0.0, 1e-20, 1e-30}) {
    for (const NormForm form : {NormForm::kInside, NormForm::kOutside}) {
      for (const Op op : {Op::kPre, Op::kPreBackward}) {
        Case c;
        c.op = op;
        c.dims = {3, 4, 33};
        c.dtype = DType::kF32;
        c.spec.norm_form = form;
        const auto problem = Problem::make(c);
        const Tensor x = problem->input("x");
        for (int64_t i = 0; i < 4; ++i) {
          for (int64_t d = 0; d < 33; ++d) x.store(value, 1, i, d);
        }
        // What forward saves for such a token.
        const double rms =
            form == NormForm::kInside ? std::sqrt(value * value + 1e-6) : value + 1e-6;
        if (op == Op::kPreBackward) {
          problem->input("inv_rms").store(1 / rms, 1);
          for (int64_t k = 0; k < 24; ++k)
            problem->input("z").store(value / rms * 0.1 * static_cast<double>(k), 1, k);
        }
        expect_right(c, problem.get());
        for (const Output& o : problem->outputs()) {
          for (const double v : widen(o.tensor)) ASSERT_TRUE(std::isfinite(v) || !here_) << o.name;
        }
      }
    }
  }
  if (!here_) return;
  Coefficients c(spec_of(Sinkhorn::id), 2, 5);
  c.x.tensor().store(kInf, 1, 2, 3);
  c.run(runtime_);
  EXPECT_NEAR(c.inv_rms.tensor().load(0), 1 / std::sqrt(1 + 1e-6), 2e-7);
  EXPECT_TRUE(std::isnan(c.z.tensor().load(1, 0)));
}

// sum x^2 leaves f32 while every x is finite: NaN, or right, but no finite wrong gate.
TEST_P(Faults, OverflowOfTheSumOfSquares) {
  if (!here_) return;
  for (const DType type : {DType::kF32, DType::kBF16}) {
    Coefficients c(spec_of(Sinkhorn::id), 2, 16, type);
    c.x.tensor().store(2e19, 1, 0, 3);
    for (int64_t k = 0; k < 24; ++k) {
      for (int64_t d = 0; d < 16; ++d) c.phi.tensor().store(0.3, k, 0, d);
    }
    c.run(runtime_);
    // Exactly: z is 0.3 * 8 (one of 64 features carries all), the gates far from one half.
    const double z = 0.3 * 8, right = sigmoid(z);
    for (int64_t k = 0; k < 4; ++k) {
      const double got = c.h_post.tensor().load(1, k) / 2;
      EXPECT_TRUE(std::isnan(got) || std::fabs(got - right) < 1e-3)
          << name_of(type) << " got " << got;
      EXPECT_TRUE(std::isfinite(c.h_post.tensor().load(0, k)));
    }
  }
}

TEST_P(Faults, Subnormals) {
  for (const Op op :
       {Op::kPost, Op::kPostBackward, Op::kCollapse, Op::kSpread, Op::kPre, Op::kPreBackward}) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      Case c;
      c.op = op;
      c.dims = {5, 4, 35};
      c.dtype = dtype;
      c.value_scale = dtype == DType::kF16 ? 1e-7 : 1e-39;
      const auto problem = Problem::make(c);
      expect_right(c, problem.get());
    }
  }
}

#if defined(__x86_64__)
TEST_P(Faults, CallersModeIsRestored) {
  if (!here_) return;
  for (const uint32_t mode : {0x1f80u, 0x9fc0u, 0x5f80u}) {  // plain, flushing, rounding up
    Case c;
    c.op = Op::kPre;
    const auto problem = Problem::make(c);
    const uint32_t before = _mm_getcsr();
    _mm_setcsr(mode);
    const Status status = problem->run(runtime_);
    const uint32_t after = _mm_getcsr() & ~0x3fu;  // not the flags of what happened
    _mm_setcsr(before);
    ASSERT_TRUE(status.ok());
    EXPECT_EQ(after, mode & ~0x3fu);
  }
}
#endif

TEST_P(Faults, OddSizesAtTheEndOfMemory) {
  for (int32_t op = 0; op < kOps; ++op) {
    for (const int64_t embedding : {1, 3, 31, 513}) {
      for (const int64_t streams : {1, 3, 4}) {
        Case c;
        c.op = static_cast<Op>(op);
        c.dims = {1, streams, embedding};
        c.spec.streams = streams;
        c.placement = Placement::kPageEnd;
        const auto problem = Problem::make(c);
        expect_right(c, problem.get());
      }
    }
  }
}

TEST_P(Faults, AccumulatingIntoBf16IsRefused) {
  if (!here_) return;
  const Coefficients c(spec_of(Sinkhorn::id), 1, 4);
  const Buffer phi(DType::kBF16, {24, 4, 4}), d_phi(DType::kBF16, {24, 4, 4});
  PreBackwardArgs a;
  a.spec = c.spec;
  a.x = c.x;
  a.params = {phi, c.alpha, c.bias, {}};
  a.z = c.z;
  a.inv_rms = c.inv_rms;
  a.d_phi = d_phi;
  a.accumulate = true;
  const Status status = pre_backward(a, runtime_);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(std::string(status.message).find("d_phi"), std::string::npos) << status.message;
}

// Each of the four terms of d_x by itself, at a K so small that each matters, x along phi.
TEST_P(Faults, DxByItsParts) {
  for (const char* part : {"d_x_next", "d_layer_input", "gates", "all"}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      Case c;
      c.op = Op::kPreBackward;
      c.dims = {3, 4, 4};
      c.dtype = dtype;
      c.outputs = 1;
      c.gate_scale = 2;
      const auto problem = Problem::make(c);
      const Tensor x = problem->input("x"), phi = problem->input("phi"), z = problem->input("z");
      for_each_index(
          x, [&](int64_t t, int64_t i, int64_t d) { x.store(8 * phi.load(t, i, d), t, i, d); });
      for (int64_t t = 0; t < 3; ++t) {  // what forward would have saved
        double squares = 0;
        for (int64_t k = 0; k < 16; ++k)
          squares += x.load(t, k / 4, k % 4) * x.load(t, k / 4, k % 4);
        const double inv_rms = 1 / std::sqrt(squares / 16 + 1e-6);
        problem->input("inv_rms").store(inv_rms, t);
        for (int64_t j = 0; j < 24; ++j) {
          double q = 0;
          for (int64_t k = 0; k < 16; ++k) q += phi.load(j, k / 4, k % 4) * x.load(t, k / 4, k % 4);
          z.store(inv_rms * q, t, j);
        }
      }
      const auto keep = [&](const char* name, bool kept) {
        const Tensor d = problem->input(name);
        if (!kept) for_each_index(d, [&](int64_t i, int64_t j, int64_t k) { d.store(0, i, j, k); });
      };
      const std::string word = part;
      keep("d_x_next", word == "d_x_next" || word == "all");
      keep("d_layer_input", word == "d_layer_input" || word == "all");
      for (const char* name : {"d_h_pre", "d_h_post", "d_h_res"})
        keep(name, word == "gates" || word == "all");
      expect_right(c, problem.get());
    }
  }
}

// With equal streams the mix does not see h_res's rows apart: its logits' gradient is noise, far
// below that of streams that differ.
TEST_P(Faults, EqualStreamsHaveNoResGradient) {
  if (!here_) return;
  double sizes[2] = {};
  for (const bool equal : {false, true}) {
    Case c;
    c.op = Op::kCoefficientsBackward;
    c.dims = {9, 4, 16};
    const auto problem = Problem::make(c);
    const Tensor d = problem->input("d_h_res");
    if (equal) {  // d_h_res[i][j] = sum_d x[i][d] g[j][d] is the same for every i
      for_each_index(d,
                     [&](int64_t t, int64_t i, int64_t j) { d.store(d.load(t, 0, j), t, i, j); });
    }
    problem->changed();
    ASSERT_TRUE(problem->run(runtime_).ok());
    const std::vector<double> d_q = widen(problem->outputs()[0].tensor);
    for (int64_t t = 0; t < 9; ++t) {
      for (int64_t k = 8; k < 24; ++k) {
        sizes[equal] = std::max(sizes[equal], std::fabs(d_q[static_cast<size_t>(24 * t + k)]));
      }
    }
  }
  EXPECT_GT(sizes[0], 0.05);
  EXPECT_LT(sizes[1], 1e-4 * sizes[0]);
}

INSTANTIATE_TEST_SUITE_P(Isas, Faults,
                         testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

}  // namespace
}  // namespace mhc::verify
