#pragma once
// A site and a head as functions of arrays of any number type, with their gradients from the
// reference's backwards.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/post/post_reference.h"
#include "kernels/post_backward/post_backward_reference.h"
#include "kernels/pre/pre_reference.h"
#include "kernels/pre_backward/pre_backward_reference.h"
#include "manifold/list.h"
#include "verify/derivative.h"

namespace mhc::gradient_test {

using verify::Arrays;
using verify::expect_derivative;
using verify::Extended;
using verify::Random;
using verify::random_array;

inline constexpr int64_t kTokens = 3;

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
inline const std::vector<std::string> kInputNames = {"x",     "phi",  "norm_weight",
                                                     "alpha", "bias", "layer_output"};

inline Arrays<Extended> random_inputs(const Case& c, Random* random) {
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
inline Arrays<Extended> site_backward(const Case& c, const Arrays<Extended>& in,
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

inline void expect_site_gradients(const Case& c, Random* random) {
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

inline Case make_case(int32_t manifold, int64_t n, int32_t iterations = 20) {
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

}  // namespace mhc::gradient_test
