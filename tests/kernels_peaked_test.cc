// Accuracy where one entry dominates and where gates saturate: every gradient is right to 1e-5 of
// the sum of its absolute terms, |J|^T |g|, in f32, held against the definition in extended
// precision. J itself vanishes on peaked logits, so that the textbook forms lose everything here.
// The gradient's own size is no measure: a cotangent that happens to be orthogonal to the manifold
// leaves J^T g to chance, at any logits.

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/common/reference_gates.h"
#include "manifold/permutation.h"
#include "manifold/sinkhorn.h"
#include "verify/cases_test.h"
#include "verify/problem.h"

namespace mhc::verify {
namespace {

constexpr double kRelative = 1e-5;

struct Exact {
  std::vector<long double> value, terms;  // [T][m]; terms = |J|^T |g|
};

struct Gradients {
  Exact d_logit, d_q;
};

// The definition on the problem's own numbers. `offset` of d_h_res is not counted among the terms.
Gradients exact_gradients(const Problem& p, const Spec& spec, int64_t features,
                          long double offset = 0) {
  const auto wide = [&p](const char* name) {
    return reference::load_all<long double>(p.input(name));
  };
  const std::vector<long double> z = wide("z"), inv_rms = wide("inv_rms"), alpha = wide("alpha"),
                                 bias = wide("bias");
  const std::vector<long double> pre = wide("d_h_pre"), post = wide("d_h_post"),
                                 res = wide("d_h_res");
  reference::Gates<long double> gates(spec, GateKind::kSite, features);
  const int64_t n = spec.streams, m = gates.layout().coefficients(),
                tokens = static_cast<int64_t>(inv_rms.size());
  Gradients out;
  for (Exact* e : {&out.d_logit, &out.d_q}) {
    e->value.resize(z.size());
    e->terms.resize(z.size());
  }
  // One entry of d_h_res at a time; a gate has one term.
  std::vector<long double> one(static_cast<size_t>(n * n)), d_logit(static_cast<size_t>(m)),
      d_q(static_cast<size_t>(m));
  for (int64_t t = 0; t < tokens; ++t) {
    const auto backward = [&](const long double* d_h_res, long double* logit, long double* q) {
      long double d_ss = 0;
      gates.backward(z.data() + t * m, inv_rms[static_cast<size_t>(t)], 1.0L, alpha.data(),
                     bias.data(), {pre.data() + t * n, post.data() + t * n, d_h_res}, logit, q,
                     &d_ss);
    };
    backward(res.data() + t * n * n, out.d_logit.value.data() + t * m,
             out.d_q.value.data() + t * m);
    for (size_t k = 0; k < one.size(); ++k) {
      one.assign(one.size(), 0);
      one[k] = res[static_cast<size_t>(t * n * n) + k] - offset;
      backward(one.data(), d_logit.data(), d_q.data());
      for (int64_t c = 0; c < m; ++c) {
        const size_t to = static_cast<size_t>(t * m + c), from = static_cast<size_t>(c);
        const bool is_gate = c < 2 * n;
        out.d_logit.terms[to] = std::fabs(d_logit[from]) + (is_gate ? 0 : out.d_logit.terms[to]);
        out.d_q.terms[to] = std::fabs(d_q[from]) + (is_gate ? 0 : out.d_q.terms[to]);
      }
    }
  }
  return out;
}

// |got - want| / |terms| over entries [begin, end) of a row.
double relative_error(const std::vector<double>& got, const Exact& want, int64_t begin,
                      int64_t end) {
  long double error = 0, norm = 0;
  for (int64_t c = begin; c < end; ++c) {
    const size_t k = static_cast<size_t>(c);
    const long double e = static_cast<long double>(got[k]) - want.value[k];
    error += e * e;
    norm += want.terms[k] * want.terms[k];
  }
  EXPECT_GT(norm, 0) << "zeros would pass any test that is not relative";
  return static_cast<double>(std::sqrt(error / norm));
}

class Peaked : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override { ASSERT_EQ(missing_isas(), ""); }
  Case make(Op op, int32_t manifold, int64_t n, double peak) const {
    Case c;
    c.op = op;
    c.dims = {op == Op::kPreBackward ? 1 : 19, n, 7};
    c.dtype = DType::kF32;
    c.spec.manifold = manifold;
    c.spec.streams = n;
    c.peak = peak;
    c.lazy = false;
    c.seed = seed_of("peaked") + static_cast<uint64_t>(100 * peak) + static_cast<uint64_t>(n);
    return c;
  }

  // Rows of d_q of the coefficients' backward, or with one token d_bias, which is then d_logit.
  void expect_accurate(const Case& c) {
    if (!is_available(GetParam())) return;
    const auto problem = Problem::make(c);
    // What comes through layer_input would be another input of d_h_pre.
    if (c.op == Op::kPreBackward) {
      const Tensor du = problem->input("d_layer_input");
      for_each_index(du, [&](int64_t i, int64_t j, int64_t k) { du.store(0, i, j, k); });
      problem->changed();
    }
    const int64_t n = c.dims.streams, m = gate_layout(c.spec, GateKind::kSite).coefficients();
    const Gradients want = exact_gradients(*problem, c.spec, c.dims.flat());
    const Status status = problem->run(runtime_of(GetParam()));
    ASSERT_TRUE(status.ok()) << status.message;
    const bool whole = c.op == Op::kPreBackward;
    for (const Output& o : problem->outputs()) {
      if (std::string(o.name) != (whole ? "d_bias" : "d_q")) continue;
      const std::vector<double> got = widen(o.tensor);
      for (int64_t t = 0; t < c.dims.tokens; ++t) {
        const Exact& exact = whole ? want.d_logit : want.d_q;
        EXPECT_LT(relative_error(got, exact, t * m + 2 * n, (t + 1) * m), kRelative)
            << describe(c) << " token " << t;
        for (int64_t k = t * m; k < t * m + 2 * n; ++k) {
          EXPECT_LT(relative_error(got, exact, k, k + 1), kRelative)
              << describe(c) << " gate " << k;
        }
      }
    }
  }
};

TEST_P(Peaked, Permutation) {
  for (const double lead : {0.0, 8.0, 12.0, 16.0, 20.0}) {
    for (const int64_t n : {2, 3, 4, 5}) {
      expect_accurate(make(Op::kCoefficientsBackward, Permutation::id, n, lead));
      expect_accurate(make(Op::kPreBackward, Permutation::id, n, lead));
    }
  }
}

TEST_P(Peaked, Sinkhorn) {
  for (const double lead : {0.0, 6.0, 10.0, 20.0, 40.0}) {
    for (const int64_t n : {2, 3, 4, 8}) {
      if (kSmallTests && n == 8) continue;
      for (const int32_t iterations : {1, 2, 3, 20}) {
        Case c = make(Op::kCoefficientsBackward, Sinkhorn::id, n, lead);
        c.spec.manifold_options.iterations = iterations;
        expect_accurate(c);
        c.op = Op::kPreBackward;
        c.dims.tokens = 1;
        expect_accurate(c);
      }
    }
  }
}

// d_h_res[i][j] = sum_d x[i][d] g[j][d] on streams that are nearly the same: hardly a difference
// between the entries of a column, whose sum is given. What is common to them must not cost digits.
TEST_P(Peaked, SinkhornOnStreamsThatAreNearlyEqual) {
  if (!is_available(GetParam())) return;
  constexpr double kCommon = 1024;
  for (const double lead : {0.0, 10.0, 40.0}) {
    for (const int32_t iterations : {1, 2, 3, 20}) {
      Case c = make(Op::kCoefficientsBackward, Sinkhorn::id, 4, lead);
      c.spec.manifold_options.iterations = iterations;
      const auto problem = Problem::make(c);
      const Tensor d = problem->input("d_h_res");
      for_each_index(
          d, [&](int64_t t, int64_t i, int64_t j) { d.store(kCommon + d.load(t, i, j), t, i, j); });
      problem->changed();
      const Gradients want = exact_gradients(*problem, c.spec, c.dims.flat(), kCommon);
      ASSERT_TRUE(problem->run(runtime_of(GetParam())).ok());
      const std::vector<double> got = widen(problem->outputs()[0].tensor);
      for (int64_t t = 0; t < c.dims.tokens; ++t) {
        EXPECT_LT(relative_error(got, want.d_q, t * 24 + 8, (t + 1) * 24), kRelative)
            << describe(c) << " token " << t;
      }
    }
  }
}

// The gates' logits at both ends: e/(1+e)^2, not s(1-s), until that is below 1.2e-38. Cotangents of
// 1e6 keep their products away from there.
TEST_P(Peaked, SaturatedGates) {
  if (!is_available(GetParam())) return;
  for (const double l :
       {8.0, 10.0, 12.0, 17.0, 30.0, -8.0, -10.0, -12.0, -17.0, -30.0, 60.0, -80.0, 87.0, -87.0}) {
    Case c = make(Op::kCoefficientsBackward, Sinkhorn::id, 4, 0);
    const auto problem = Problem::make(c);
    const Tensor bias = problem->input("bias"), z = problem->input("z");
    for (int64_t k = 0; k < 8; ++k) bias.store(l, k);
    for_each_index(z, [&](int64_t i, int64_t j, int64_t) { z.store(0, i, j); });
    for (const char* name : {"d_h_pre", "d_h_post"}) {
      const Tensor d = problem->input(name);
      for_each_index(d, [&](int64_t i, int64_t j, int64_t) { d.store(1e6 * d.load(i, j), i, j); });
    }
    problem->changed();
    const Gradients want = exact_gradients(*problem, c.spec, c.dims.flat());
    ASSERT_TRUE(problem->run(runtime_of(GetParam())).ok());
    const std::vector<double> got = widen(problem->outputs()[0].tensor);
    for (int64_t t = 0; t < c.dims.tokens; ++t) {
      for (int64_t k = 24 * t; k < 24 * t + 8; ++k) {
        EXPECT_LT(relative_error(got, want.d_q, k, k + 1), kRelative)
            << "logit " << l << " entry " << k;
      }
    }
  }
}

// Cotangents of a loss scaled by 1e4 to 1e8 with saturated logits stay finite and right.
TEST_P(Peaked, LargeCotangents) {
  for (const double scale : {1e4, 1e8}) {
    for (const int32_t manifold : {Sinkhorn::id, Permutation::id}) {
      Case c = make(Op::kCoefficientsBackward, manifold, 4, manifold == Sinkhorn::id ? 40 : 20);
      const auto problem = Problem::make(c);
      for (const char* name : {"d_h_pre", "d_h_post", "d_h_res"}) {
        const Tensor d = problem->input(name);
        for_each_index(
            d, [&](int64_t i, int64_t j, int64_t k) { d.store(scale * d.load(i, j, k), i, j, k); });
      }
      problem->changed();
      if (!is_available(GetParam())) continue;
      const Gradients want = exact_gradients(*problem, c.spec, c.dims.flat());
      ASSERT_TRUE(problem->run(runtime_of(GetParam())).ok());
      const std::vector<double> got = widen(problem->outputs()[0].tensor);
      const int64_t m = gate_layout(c.spec, GateKind::kSite).coefficients();
      for (int64_t t = 0; t < c.dims.tokens; ++t) {
        EXPECT_LT(relative_error(got, want.d_q, t * m + 8, (t + 1) * m), kRelative) << describe(c);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Peaked,
                         testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

}  // namespace
}  // namespace mhc::verify
