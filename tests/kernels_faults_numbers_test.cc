// Numbers at the edges of their range and memory at the edges of its own.

#include "kernels_faults.h"

namespace mhc::verify {
namespace {

// A NaN or inf reaches its own token's outputs and those sums over tokens that it is part of,
// nothing else.
TEST_P(Faults, NanStaysInItsToken) {
  for (const double bad : {kNan, kInf}) {
    for (const Op op : {Op::kPost, Op::kPostBackward, Op::kCollapse, Op::kSpread, Op::kPre,
                        Op::kPreBackward, Op::kCoefficients, Op::kCoefficientsBackward}) {
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
        const char* input = op == Op::kSpread                 ? "source"
                            : op == Op::kPostBackward         ? "d_x_next"
                            : op == Op::kCoefficients         ? "q"
                            : op == Op::kCoefficientsBackward ? "d_h_post"
                                                              : "x";
        const Tensor t = problem->input(input);
        t.store(bad, 19, t.rank == 3 ? 2 : 3, t.rank == 3 ? 31 : 0);
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
          if (!per_token) {
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

// norm_form outside divides by rms = sqrt(ss / K): here ss is a normal number and ss / K is flushed.
// With what forward saves for such a token the norm's term is some 1e-12 of the others in either
// form, so that the other form's bounds, which do not divide by it, hold for this one.
TEST_P(Faults, MeanSquareThatIsFlushed) {
  if (!here_) return;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Case c;
    c.op = Op::kPreBackward;
    c.dims = {3, 4, 33};
    c.dtype = dtype;
    const auto prepare = [&] {
      auto problem = Problem::make(c);
      const double value = 1.2e-19, inv_rms = 1 / (value + 1e-6);
      for (int64_t k = 0; k < 132; ++k) {
        problem->input("x").store(k == 40 ? value : 0, 1, k / 33, k % 33);
      }
      problem->input("inv_rms").store(inv_rms, 1);
      for (int64_t k = 0; k < 24; ++k) {
        problem->input("z").store(value * inv_rms * 0.1 * static_cast<double>(k), 1, k);
      }
      problem->changed();
      return problem;
    };
    const Expected inside = prepare()->expect(splits_phi(c, expected_row(c, runtime_)))[0];
    c.spec.norm_form = NormForm::kOutside;
    const auto problem = prepare();
    ASSERT_TRUE(problem->run(runtime_).ok());
    const Tensor d_x = problem->outputs()[0].tensor;
    const Comparison of_token = compare(tokens_of(d_x, 1, 1), row_of(inside, 1));
    EXPECT_TRUE(of_token.ok()) << describe(c) << "\n" << of_token.first_wrong;
  }
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
