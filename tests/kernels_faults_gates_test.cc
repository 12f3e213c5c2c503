// Gates at the ends of their logits' range.

#include "kernels_faults.h"

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

TEST_P(Faults, HugeLogitsBackward) {
  for (const int32_t manifold : {Sinkhorn::id, Permutation::id, Unconstrained::id}) {
    for (const double size : {100.0, 1e4}) {
      for (const Op op : {Op::kPreBackward, Op::kCoefficientsBackward}) {
        Case c;
        c.op = op;
        c.spec.manifold = manifold;
        c.gate_scale = size;
        const auto problem = Problem::make(c);
        expect_right(c, problem.get());
        for (const Output& o : problem->outputs()) {
          for (const double v : widen(o.tensor)) ASSERT_TRUE(std::isfinite(v) || !here_) << o.name;
        }
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

// A vector's lanes past the last token hold z = 0, which with these biases and no eps is 0/0 in
// Sinkhorn's columns. The tokens' own z makes up for the biases.
TEST_P(Faults, LanesWithoutATokenReachNoSum) {
  for (const Op op : {Op::kPreBackward, Op::kCoefficientsBackward}) {
    Case c;
    c.op = op;
    c.dims = {5, 4, 33};
    c.dtype = DType::kF32;
    c.spec.manifold_options.eps = 0;
    const auto problem = Problem::make(c);
    const Tensor bias = problem->input("bias"), z = problem->input("z");
    const double alpha = problem->input("alpha").load(2);
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t first_column = 8 + 4 * i;
      bias.store(-200, first_column);
      for (int64_t t = 0; t < 5; ++t) {
        z.store(z.load(t, first_column) + 200 / alpha, t, first_column);
      }
    }
    expect_right(c, problem.get());
    for (const Output& o : problem->outputs()) {
      for (const double v : widen(o.tensor)) ASSERT_TRUE(std::isfinite(v) || !here_) << o.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Faults,
                         testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

}  // namespace
}  // namespace mhc::verify
