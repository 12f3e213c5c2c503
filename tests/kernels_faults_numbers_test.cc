// Numbers at the edges of their range and memory at the edges of its own.

#include "kernels_faults.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mhc::verify {
namespace {

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

INSTANTIATE_TEST_SUITE_P(Isas, Faults,
                         testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

}  // namespace
}  // namespace mhc::verify
