// The same for the parts that a site does not use: features sharded over two devices, collapse and
// spread.

#include <gtest/gtest.h>

#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/coefficients/coefficients_reference.h"
#include "kernels/collapse/collapse_reference.h"
#include "kernels/spread/spread_reference.h"
#include "reference_gradient.h"

namespace mhc::gradient_test {
namespace {

using ReferenceGradientParts = ReferenceGradient;

// Two shards of the features: each projects its own, the sums go through the coefficients, and what
// comes back goes to each shard.
TEST_F(ReferenceGradientParts, ShardedFeatures) {
  enum { kX0, kPhi0, kX1, kPhi1, kShardAlpha, kShardBias };
  for_each_problem([&](int32_t manifold, int64_t n, int32_t iterations) {
    for (const NormForm form : {NormForm::kInside, NormForm::kOutside}) {
      Case c = make_case(manifold, n, iterations);
      c.spec.norm_form = form;
      const int64_t m = c.m(), part0 = n * 2, part1 = n * 3, total = part0 + part1;
      struct State {
        std::vector<Extended> q, sum_squares, z, inv_rms;
      } state;
      const auto forward = [&](const auto& in) {
        using Real = RealOf<decltype(in)>;
        std::vector<Real> q = zeros<Real>(kTokens * m), q1 = q, z = q;
        std::vector<Real> ss = zeros<Real>(kTokens), ss1 = ss, inv_rms = ss;
        reference::project(kTokens, m, part0, in[kX0].data(), in[kPhi0].data(), q.data(),
                           ss.data());
        reference::project(kTokens, m, part1, in[kX1].data(), in[kPhi1].data(), q1.data(),
                           ss1.data());
        for (size_t k = 0; k < q.size(); ++k) q[k] = q[k] + q1[k];
        for (size_t t = 0; t < ss.size(); ++t) ss[t] = ss[t] + ss1[t];
        std::vector<Real> h_pre = zeros<Real>(kTokens * n), h_post = h_pre;
        std::vector<Real> h_res = zeros<Real>(kTokens * n * n);
        reference::Gates<Real> gates(c.spec, c.kind, total);
        reference::coefficients<Real>(
            kTokens, &gates,
            {q.data(), ss.data(), in[kShardAlpha].data(), in[kShardBias].data(), z.data(),
             inv_rms.data(), h_pre.data(), h_post.data(), h_res.data()});
        if constexpr (std::is_same_v<Real, Extended>) state = {q, ss, z, inv_rms};
        return Arrays<Real>{h_pre, h_post, h_res};
      };
      const Arrays<Extended> in = {
          random_array(&random_, kTokens * part0), random_array(&random_, m * part0, 0.5),
          random_array(&random_, kTokens * part1), random_array(&random_, m * part1, 0.5),
          random_array(&random_, 3, 0.3, 1.0),     random_array(&random_, m)};
      const Arrays<Extended> cotangents = {random_array(&random_, kTokens * n),
                                           random_array(&random_, kTokens * n),
                                           random_array(&random_, kTokens * n * n)};
      forward(in);
      std::vector<Extended> d_logit = state.z, d_q = state.z, d_ss = state.inv_rms;
      std::vector<Extended> d_alpha = zeros<Extended>(3), d_bias = zeros<Extended>(m);
      reference::Gates<Extended> gates(c.spec, c.kind, total);
      reference::coefficients_backward<Extended>(
          kTokens, &gates,
          {state.z.data(), state.inv_rms.data(), state.sum_squares.data(), in[kShardAlpha].data(),
           in[kShardBias].data(), cotangents[0].data(), cotangents[1].data(), cotangents[2].data(),
           d_logit.data(), d_q.data(), d_ss.data(), d_alpha.data(), d_bias.data()});
      const auto shard = [&](int x, int phi, int64_t part) {
        std::vector<Extended> d_x = in[static_cast<size_t>(x)];
        std::vector<Extended> d_phi = zeros<Extended>(m * part);
        reference::PreBackwardArrays<Extended> a = {};
        a.x = in[static_cast<size_t>(x)].data();
        a.phi_eff = in[static_cast<size_t>(phi)].data();
        a.d_q = d_q.data();
        a.d_sum_squares = d_ss.data();
        a.d_x = d_x.data();
        const Dims dims{kTokens, n, part / n};
        reference::pre_backward_gates(c.spec, dims, &gates, a);
        reference::pre_backward_d_x(c.spec, c.activation, dims, &gates, a);
        reference::pre_backward_d_phi<Extended>(kTokens, m, part, 0, part, d_q.data(), a.x,
                                                d_phi.data());
        return std::pair(d_x, d_phi);
      };
      const auto [d_x0, d_phi0] = shard(kX0, kPhi0, part0);
      const auto [d_x1, d_phi1] = shard(kX1, kPhi1, part1);
      const Arrays<Extended> gradients = {d_x0, d_phi0, d_x1, d_phi1, d_alpha, d_bias};
      SCOPED_TRACE(testing::Message() << find_manifold(manifold)->name << ", n " << n);
      expect_derivative(
          forward,
          {in,
           cotangents,
           gradients,
           {"x of shard 0", "phi of shard 0", "x of shard 1", "phi of shard 1", "alpha", "bias"}},
          &random_);
    }
  });
}

// collapse and spread are each other's backwards: expand and its backward, reduce and its backward,
// apply_pre and its backward.
TEST_F(ReferenceGradientParts, CollapseAndSpread) {
  constexpr double kScale = 0.75;
  for (const int64_t n : {1, 3, 4}) {
    for (const GatePrecision precision : {GatePrecision::kFloat32, GatePrecision::kActivation}) {
      const Dims dims{kTokens, n, 5};
      const std::vector<Extended> x = random_array(&random_, kTokens * dims.flat());
      const std::vector<Extended> h = random_array(&random_, kTokens * n);
      const std::vector<Extended> d = random_array(&random_, kTokens * dims.embedding);
      std::vector<Extended> d_x = x, d_h = h;
      // apply_pre has no scale, reduce no weights.
      reference::spread<Extended>(precision, 1.0, DType::kBF16, dims,
                                  {d.data(), h.data(), x.data(), d_x.data(), d_h.data()});
      expect_derivative(
          [&](const auto& in) {
            using Real = RealOf<decltype(in)>;
            std::vector<Real> out = zeros<Real>(kTokens * dims.embedding);
            reference::collapse<Real>(precision, 1.0, DType::kBF16, dims,
                                      {in[0].data(), in[1].data(), out.data()});
            return Arrays<Real>{out};
          },
          {{x, h}, {d}, {d_x, d_h}, {"x", "weights"}, precision == GatePrecision::kFloat32},
          &random_);

      reference::spread<Extended>(precision, kScale, DType::kBF16, dims,
                                  {d.data(), nullptr, nullptr, d_x.data(), nullptr});
      expect_derivative(
          [&](const auto& in) {
            using Real = RealOf<decltype(in)>;
            std::vector<Real> out = zeros<Real>(kTokens * dims.embedding);
            reference::collapse<Real>(precision, kScale, DType::kBF16, dims,
                                      {in[0].data(), nullptr, out.data()});
            return Arrays<Real>{out};
          },
          {{x}, {d}, {d_x}, {"x"}}, &random_);

      std::vector<Extended> d_source = d;
      reference::collapse<Extended>(precision, kScale, DType::kBF16, dims,
                                    {x.data(), h.data(), d_source.data()});
      expect_derivative(
          [&](const auto& in) {
            using Real = RealOf<decltype(in)>;
            std::vector<Real> weights, out = zeros<Real>(kTokens * dims.flat());
            for (const Extended v : h) {
              weights.push_back(constant(Real{}, static_cast<double>(v)));
            }
            reference::spread<Real>(precision, kScale, DType::kBF16, dims,
                                    {in[0].data(), weights.data(), nullptr, out.data(), nullptr});
            return Arrays<Real>{out};
          },
          {{d}, {x}, {d_source}, {"source"}}, &random_);
    }
  }
}

}  // namespace
}  // namespace mhc::gradient_test
