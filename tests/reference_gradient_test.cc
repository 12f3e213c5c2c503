// Every hand-derived backward of the reference is the derivative of its forward: the whole chain of
// a site (pre, a given branch output, post), the head, features sharded over two devices, collapse
// and spread.

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "kernels/coefficients/coefficients_reference.h"
#include "kernels/collapse/collapse_reference.h"
#include "kernels/post/post_reference.h"
#include "kernels/post_backward/post_backward_reference.h"
#include "kernels/pre/pre_reference.h"
#include "kernels/pre_backward/pre_backward_reference.h"
#include "kernels/spread/spread_reference.h"
#include "manifold/list.h"
#include "verify/derivative.h"

namespace mhc {
namespace {

using verify::Arrays;
using verify::expect_derivative;
using verify::Extended;
using verify::Random;
using verify::random_array;

constexpr int64_t kTokens = 3;

template <class Real>
std::vector<Real> zeros(int64_t size) {
  return std::vector<Real>(static_cast<size_t>(size));
}

template <class A>
using RealOf = typename std::decay_t<A>::value_type::value_type;

struct Case {
  Spec spec;
  GateKind kind;
  DType activation;
  Dims dims;
  int64_t m() const { return gate_layout(spec, kind).coefficients(); }
  bool has_roundings() const {
    return spec.phi_precision == Precision::kBFloat16 ||
           spec.h_pre_precision == GatePrecision::kActivation ||
           spec.h_post_precision == GatePrecision::kActivation ||
           spec.h_res_precision == GatePrecision::kActivation;
  }
};

// Inputs, in this order everywhere.
enum Input { kX, kPhi, kNormWeight, kAlpha, kBias, kLayerOutput };
const std::vector<std::string> kInputNames = {"x",     "phi",  "norm_weight",
                                              "alpha", "bias", "layer_output"};

Arrays<Extended> random_inputs(const Case& c, Random* random) {
  const Dims& d = c.dims;
  return {random_array(random, d.tokens * d.flat()),
          random_array(random, c.m() * d.flat(), 0.5),
          random_array(random, d.flat(), 0.3, 1.0),
          random_array(random, gate_layout(c.spec, c.kind).groups(), 0.3, 1.0),
          random_array(random, c.m()),
          random_array(random, d.tokens * d.embedding)};
}

// What pre computes, with room for all its outputs.
template <class Real>
struct Forward {
  std::vector<Real> phi_eff, q, sum_squares, z, inv_rms, h_pre, h_post, h_res, layer_input;
  reference::Gates<Real> gates;

  Forward(const Case& c, const Arrays<Real>& in)
      : phi_eff(in[kPhi].size()),
        q(zeros<Real>(c.dims.tokens * c.m())),
        sum_squares(zeros<Real>(c.dims.tokens)),
        z(q),
        inv_rms(sum_squares),
        h_pre(zeros<Real>(c.dims.tokens * c.dims.streams)),
        h_post(h_pre),
        h_res(zeros<Real>(c.dims.tokens * c.dims.streams * c.dims.streams)),
        layer_input(zeros<Real>(c.dims.tokens * c.dims.embedding)),
        gates(c.spec, c.kind, c.dims.flat()) {
    reference::fold_norm_weight<Real>(c.spec, c.m(), c.dims.flat(), in[kPhi].data(),
                                      in[kNormWeight].data(), phi_eff.data());
    reference::pre<Real>(c.spec, c.activation, c.dims, &gates,
                         {in[kX].data(), phi_eff.data(), in[kAlpha].data(), in[kBias].data(),
                          q.data(), sum_squares.data(), z.data(), inv_rms.data(), h_pre.data(),
                          h_post.data(), h_res.data(), layer_input.data()});
  }
};

// Outputs of a site: layer_input, h_pre, h_post, h_res, x_next. Of a head: the first two.
template <class Real>
Arrays<Real> site_forward(const Case& c, const Arrays<Real>& in) {
  Forward<Real> f(c, in);
  if (c.kind == GateKind::kHead) return {f.layer_input, f.h_pre};
  std::vector<Real> x_next = zeros<Real>(c.dims.tokens * c.dims.flat());
  reference::post<Real>(
      c.spec, c.activation, c.dims,
      {in[kX].data(), in[kLayerOutput].data(), f.h_post.data(), f.h_res.data(), x_next.data()});
  return {f.layer_input, f.h_pre, f.h_post, f.h_res, x_next};
}

// Gradients in the order of the inputs. The eager schedule mixes g in post's backward, the lazy one
// in pre's.
Arrays<Extended> site_backward(const Case& c, const Arrays<Extended>& in,
                               const Arrays<Extended>& cotangents, bool eager) {
  const Dims& dims = c.dims;
  const bool site = c.kind == GateKind::kSite;
  Forward<Extended> f(c, in);
  std::vector<Extended> d_layer_output, d_h_post, d_h_res, d_x_post;
  if (site) {
    d_layer_output = zeros<Extended>(dims.tokens * dims.embedding);
    d_h_post = f.h_post;
    d_h_res = f.h_res;
    d_x_post = in[kX];
    reference::post_backward<Extended>(
        c.spec, c.activation, dims,
        {cotangents[4].data(), in[kX].data(), in[kLayerOutput].data(), f.h_post.data(),
         f.h_res.data(), d_layer_output.data(), d_h_post.data(), d_h_res.data(),
         eager ? d_x_post.data() : nullptr});
    for (size_t k = 0; k < d_h_post.size(); ++k) d_h_post[k] += cotangents[2][k];
    for (size_t k = 0; k < d_h_res.size(); ++k) d_h_res[k] += cotangents[3][k];
  }
  std::vector<Extended> d_logit = f.z, d_q = f.z, d_sum_squares = f.sum_squares, d_x = in[kX];
  std::vector<Extended> d_phi = zeros<Extended>(static_cast<int64_t>(in[kPhi].size()));
  std::vector<Extended> d_norm_weight = in[kNormWeight];
  std::vector<Extended> d_alpha = zeros<Extended>(static_cast<int64_t>(in[kAlpha].size()));
  std::vector<Extended> d_bias = zeros<Extended>(c.m());
  const reference::PreBackwardArrays<Extended> a = {in[kX].data(),
                                                    f.phi_eff.data(),
                                                    in[kAlpha].data(),
                                                    in[kBias].data(),
                                                    f.z.data(),
                                                    f.inv_rms.data(),
                                                    cotangents[0].data(),
                                                    cotangents[1].data(),
                                                    site ? d_h_post.data() : nullptr,
                                                    site ? d_h_res.data() : nullptr,
                                                    site && !eager ? cotangents[4].data() : nullptr,
                                                    site && eager ? d_x_post.data() : nullptr,
                                                    d_logit.data(),
                                                    d_q.data(),
                                                    d_sum_squares.data(),
                                                    d_x.data()};
  reference::pre_backward_gates(c.spec, dims, &f.gates, a);
  reference::pre_backward_d_x(c.spec, c.activation, dims, &f.gates, a);
  reference::pre_backward_d_phi<Extended>(dims.tokens, c.m(), dims.flat(), 0, dims.flat(),
                                          d_q.data(), in[kX].data(), d_phi.data());
  reference::pre_backward_d_gate_parameters<Extended>(dims.tokens, f.gates.layout(), d_logit.data(),
                                                      f.z.data(), d_alpha.data(), d_bias.data());
  reference::unfold_norm_weight<Extended>(c.m(), dims.flat(), in[kPhi].data(),
                                          in[kNormWeight].data(), d_phi.data(),
                                          d_norm_weight.data());
  return {d_x, d_phi, d_norm_weight, d_alpha, d_bias, d_layer_output};
}

void expect_site_gradients(const Case& c, Random* random) {
  const Arrays<Extended> inputs = random_inputs(c, random);
  Arrays<Extended> cotangents;
  for (const auto& output : site_forward<Extended>(c, inputs)) {
    cotangents.push_back(random_array(random, static_cast<int64_t>(output.size())));
  }
  for (const bool eager : {false, true}) {
    SCOPED_TRACE(testing::Message()
                 << find_manifold(c.spec.manifold)->name << ", n " << c.dims.streams
                 << ", iterations " << c.spec.manifold_options.iterations << ", order "
                 << static_cast<int>(c.spec.matrix_order) << ", norm form "
                 << static_cast<int>(c.spec.norm_form) << ", head " << (c.kind == GateKind::kHead)
                 << ", eager " << eager);
    expect_derivative([&](const auto& in) { return site_forward<RealOf<decltype(in)>>(c, in); },
                      {inputs, cotangents, site_backward(c, inputs, cotangents, eager), kInputNames,
                       !c.has_roundings()},
                      random);
  }
}

Case make_case(int32_t manifold, int64_t n, int32_t iterations = 20) {
  Case c{{}, GateKind::kSite, DType::kBF16, {kTokens, n, n > 5 ? 2 : 3}};
  c.spec.streams = n;
  c.spec.manifold = manifold;
  c.spec.manifold_options.iterations = iterations;
  c.spec.manifold_options.eps = 1e-3;
  c.spec.norm_eps = 0.25;  // large enough for each eps to matter
  c.spec.pre_eps = 0.125;
  c.spec.post_mult = 1.75;
  return c;
}

template <class F, class... Ms>
void for_each_manifold(TypeList<Ms...>, const F& f) {
  (f(Ms{}), ...);
}

// f(manifold id, n, iterations)
template <class F>
void for_each_problem(const F& f) {
  for_each_manifold(Manifolds{}, [&](auto manifold) {
    for (const int64_t n : {1, 2, 3, 4, 5, 8, 16}) {
      if (n > manifold.max_streams) continue;
      for (const int32_t iterations : {1, 2, 3, 20}) {
        if (manifold.id == Sinkhorn::id || iterations == 1) f(manifold.id, n, iterations);
      }
    }
  });
}

class ReferenceGradient : public testing::Test {
 protected:
  Random random_{verify::seed_of(testing::UnitTest::GetInstance()->current_test_info()->name())};
};

TEST_F(ReferenceGradient, Site) {
  for_each_problem([&](int32_t manifold, int64_t n, int32_t iterations) {
    for (const MatrixOrder order : {MatrixOrder::kInputOutput, MatrixOrder::kOutputInput}) {
      for (const NormForm form : {NormForm::kInside, NormForm::kOutside}) {
        Case c = make_case(manifold, n, iterations);
        c.spec.matrix_order = order;
        c.spec.norm_form = form;
        expect_site_gradients(c, &random_);
      }
    }
  });
}

// The same rounded values in both directions, and the derivative of a rounding is one.
TEST_F(ReferenceGradient, SiteWithRoundings) {
  for_each_problem([&](int32_t manifold, int64_t n, int32_t) {
    for (int roundings = 1; roundings < 16; ++roundings) {
      Case c = make_case(manifold, n);
      if (roundings & 1) c.spec.phi_precision = Precision::kBFloat16;
      if (roundings & 2) c.spec.h_pre_precision = GatePrecision::kActivation;
      if (roundings & 4) c.spec.h_post_precision = GatePrecision::kActivation;
      if (roundings & 8) c.spec.h_res_precision = GatePrecision::kActivation;
      expect_site_gradients(c, &random_);
    }
  });
}

TEST_F(ReferenceGradient, Head) {
  for (int64_t n = 1; n <= kMaxStreams; ++n) {
    for (const NormForm form : {NormForm::kInside, NormForm::kOutside}) {
      Case c = make_case(Permutation::id, n);  // which no head looks at
      c.kind = GateKind::kHead;
      c.spec.norm_form = form;
      expect_site_gradients(c, &random_);
    }
  }
}

// Two shards of the features: each projects its own, the sums go through the coefficients, and what
// comes back goes to each shard.
TEST_F(ReferenceGradient, ShardedFeatures) {
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
TEST_F(ReferenceGradient, CollapseAndSpread) {
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
}  // namespace mhc
