#pragma once
// How far two bf16 implementations of one site may lie apart when both only round.
//
// u = 2^-8 is bf16's unit roundoff and [v] the sum of the absolute values of the terms that make v.
// A framework stores every intermediate activation in bf16, so each of them carries some roundings
// of at most u [v] there, and one here; an error E of an input passes through each linear step with
// the absolute values of its factors. The projections, the gates and their derivatives are f32 in
// all of them and count as exact, but a framework may have rounded d_q for its matrix products.
// First-order terms only; the factor of 1.05 covers the others.

#include <cmath>
#include <vector>

#include "golden_site.h"
#include "kernels/pre/pre_reference.h"

namespace mhc::golden {

class Bf16Bounds {
 public:
  // Bounds under the names of run_site and run_head.
  static Results of_site(const Site& site) {
    Bf16Bounds b(site, GateKind::kSite, site.params, site.expected.at("d_f").size());
    for (int64_t t = 0; t < b.dims_.tokens; ++t) b.add_site_token(t);
    Results out = {{"layer_input", b.layer_input_}, {"x_next", b.x_next_}, {"d_x", b.d_x_},
                   {"d_f", b.d_layer_output_},      {"d_w", b.d_w_},       {"d_phi", b.d_phi_},
                   {"d_alpha", b.d_alpha_},         {"d_bias", b.d_bias_}};
    if (!site.params.norm_weight.empty()) out["d_norm_weight"] = b.d_norm_weight_;
    // Stored in bf16 by some: one more rounding.
    for (const char* name : {"d_phi", "d_alpha", "d_bias", "d_norm_weight", "d_w"}) {
      if (out.count(name) != 0) add_rounding(site.expected.at(name), &out[name]);
    }
    return out;
  }

  static Results of_head(const Site& site) {
    Bf16Bounds b(site, GateKind::kHead, site.head_params, site.g_head.size());
    for (int64_t t = 0; t < b.dims_.tokens; ++t) b.add_head_token(t);
    return {{"head", b.layer_input_},
            {"head_d_x", b.d_x_},
            {"d_head_phi", b.d_phi_},
            {"d_head_alpha", b.d_alpha_},
            {"d_head_bias", b.d_bias_}};
  }

 private:
  static constexpr double kU = 0x1p-8;
  // Roundings of u [v] on the way to one activation: a framework rounds each product, their sum,
  // and the sum with what is there already; the kernels here round once.
  static constexpr double kRoundings = 4;
  static constexpr double kSecondOrder = 1.05;

  static void add_rounding(const Values& values, Values* bound) {
    for (size_t k = 0; k < values.size(); ++k) (*bound)[k] += kU * std::fabs(values[k]);
  }

  Bf16Bounds(const Site& site, GateKind kind, const Parameters& params, size_t branch_size)
      : site_(site),
        params_(params),
        dims_(site.dims),
        gates_(site.spec, kind, site.dims.flat()),
        m_(gates_.layout().coefficients()),
        phi_eff_(params.phi),
        layer_input_(branch_size),
        x_next_(site.x.size()),
        d_x_(site.x.size()),
        d_layer_output_(branch_size),
        d_w_(site.w.size()),
        d_phi_(params.phi.size()),
        d_alpha_(params.alpha.size()),
        d_bias_(params.bias.size()),
        d_norm_weight_(params.norm_weight.size()),
        q_(params.bias.size()),
        z_(q_),
        h_pre_(static_cast<size_t>(dims_.streams)),
        h_post_(h_pre_),
        h_res_(h_pre_.size() * h_pre_.size()) {
    reference::fold_norm_weight<double>(
        site.spec, m_, dims_.flat(), params.phi.data(),
        params.norm_weight.empty() ? nullptr : params.norm_weight.data(), phi_eff_.data());
  }

  double x(int64_t t, int64_t i, int64_t d) const {
    return site_.x[static_cast<size_t>((t * dims_.streams + i) * dims_.embedding + d)];
  }
  double g(int64_t t, int64_t j, int64_t d) const {
    return site_.g[static_cast<size_t>((t * dims_.streams + j) * dims_.embedding + d)];
  }
  double h_res(int64_t i, int64_t j) const {
    return h_res_[static_cast<size_t>(i * dims_.streams + j)];
  }

  void forward(int64_t t) {
    reference::PreArrays<double> a = {};
    a.x = site_.x.data() + t * dims_.flat();
    a.phi_eff = phi_eff_.data();
    a.alpha = params_.alpha.data();
    a.bias = params_.bias.data();
    a.q = q_.data();
    a.sum_squares = &sum_squares_;
    a.z = z_.data();
    a.inv_rms = &inv_rms_;
    a.h_pre = h_pre_.data();
    a.h_post = h_post_.data();
    a.h_res = h_res_.data();
    reference::pre(site_.spec, site_.activation, {1, dims_.streams, dims_.embedding}, &gates_, a);
  }

  void add_site_token(int64_t t) {
    const int64_t n = dims_.streams;
    forward(t);
    Values e_h_pre(h_pre_.size()), e_h_post(h_pre_.size()), e_h_res(h_res_.size());
    for (int64_t d = 0; d < dims_.embedding; ++d) {
      const size_t td = static_cast<size_t>(t * dims_.embedding + d);
      const double w = std::fabs(site_.w[static_cast<size_t>(d)]);
      double input = 0, input_terms = 0;
      for (int64_t i = 0; i < n; ++i) {
        input += h_pre_[static_cast<size_t>(i)] * x(t, i, d);
        input_terms += std::fabs(h_pre_[static_cast<size_t>(i)] * x(t, i, d));
      }
      const double e_input = kRoundings * kU * input_terms;
      const double output = site_.w[static_cast<size_t>(d)] * input + site_.f[td];
      // w * layer_input and the sum with f are rounded on both sides.
      const double e_output = w * e_input + 2 * kU * (w * std::fabs(input) + std::fabs(output));
      double d_output = 0, d_output_terms = 0;
      for (int64_t j = 0; j < n; ++j) {
        const size_t sj = static_cast<size_t>(j);
        double terms = std::fabs(h_post_[sj] * output);
        for (int64_t i = 0; i < n; ++i) terms += std::fabs(h_res(i, j) * x(t, i, d));
        x_next_[static_cast<size_t>((t * n + j) * dims_.embedding + d)] =
            kSecondOrder * (h_post_[sj] * e_output + kRoundings * kU * terms);
        d_output += h_post_[sj] * g(t, j, d);
        d_output_terms += std::fabs(h_post_[sj] * g(t, j, d));
        e_h_post[sj] += std::fabs(g(t, j, d)) * (e_output + 2 * kU * std::fabs(output));
      }
      const double e_d_output = kRoundings * kU * d_output_terms;
      const double d_input = site_.w[static_cast<size_t>(d)] * d_output;
      const double e_d_input = w * e_d_output + 2 * kU * std::fabs(d_input);
      layer_input_[td] = kSecondOrder * e_input;
      d_layer_output_[td] = kSecondOrder * e_d_output;
      d_w_[static_cast<size_t>(d)] +=
          kSecondOrder * (std::fabs(d_output) * e_input + std::fabs(input) * e_d_output +
                          2 * kU * std::fabs(d_output * input));
      for (int64_t i = 0; i < n; ++i) {
        e_h_pre[static_cast<size_t>(i)] +=
            std::fabs(x(t, i, d)) * (e_d_input + 2 * kU * std::fabs(d_input));
        double terms = std::fabs(h_pre_[static_cast<size_t>(i)] * d_input);
        for (int64_t j = 0; j < n; ++j) {
          terms += std::fabs(h_res(i, j) * g(t, j, d));
          e_h_res[static_cast<size_t>(i * n + j)] += 2 * kU * std::fabs(x(t, i, d) * g(t, j, d));
        }
        d_x_[static_cast<size_t>((t * n + i) * dims_.embedding + d)] =
            h_pre_[static_cast<size_t>(i)] * e_d_input + kRoundings * kU * terms;
      }
    }
    add_gates(t, e_h_pre, &e_h_post, &e_h_res);
  }

  void add_head_token(int64_t t) {
    forward(t);
    Values e_h_pre(h_pre_.size());
    for (int64_t d = 0; d < dims_.embedding; ++d) {
      const size_t td = static_cast<size_t>(t * dims_.embedding + d);
      double terms = 0;
      for (int64_t i = 0; i < dims_.streams; ++i) {
        const size_t si = static_cast<size_t>(i);
        terms += std::fabs(h_pre_[si] * x(t, i, d));
        e_h_pre[si] += 2 * kU * std::fabs(x(t, i, d) * site_.g_head[td]);
        d_x_[static_cast<size_t>((t * dims_.streams + i) * dims_.embedding + d)] =
            kRoundings * kU * std::fabs(h_pre_[si] * site_.g_head[td]);
      }
      layer_input_[td] = kSecondOrder * kRoundings * kU * terms;
    }
    add_gates(t, e_h_pre, nullptr, nullptr);
  }

  // From errors of the gates' cotangents to those of d_x's last two terms and of the parameter
  // gradients. The gates' backward is linear in its cotangents: it is applied to one at a time, and
  // absolute values added.
  void add_gates(int64_t t, const Values& e_h_pre, const Values* e_h_post, const Values* e_h_res) {
    const size_t m = static_cast<size_t>(m_);
    Values e_logit(m), e_q(m);
    double e_sum_squares = 0;
    const auto add = [&](const Values& errors, auto member) {
      for (size_t k = 0; k < errors.size(); ++k) {
        Values unit(errors.size()), d_logit(m), d_q(m);
        unit[k] = errors[k];
        reference::GateCotangents<double> d = {};
        d.*member = unit.data();
        double d_sum_squares = 0;
        gates_.backward(z_.data(), inv_rms_, sum_squares_, params_.alpha.data(),
                        params_.bias.data(), d, d_logit.data(), d_q.data(), &d_sum_squares);
        for (size_t c = 0; c < m; ++c) {
          e_logit[c] += std::fabs(d_logit[c]);
          e_q[c] += std::fabs(d_q[c]);
        }
        e_sum_squares += std::fabs(d_sum_squares);
      }
    };
    add(e_h_pre, &reference::GateCotangents<double>::h_pre);
    if (e_h_post != nullptr) add(*e_h_post, &reference::GateCotangents<double>::h_post);
    if (e_h_res != nullptr) add(*e_h_res, &reference::GateCotangents<double>::h_res);

    for (int64_t c = 0; c < m_; ++c) {
      const size_t sc = static_cast<size_t>(c);
      d_bias_[sc] += kSecondOrder * e_logit[sc];
      d_alpha_[static_cast<size_t>(gates_.layout().group(c))] +=
          kSecondOrder * e_logit[sc] * std::fabs(z_[sc]);
    }
    for (int64_t k = 0; k < dims_.flat(); ++k) {
      const size_t sk = static_cast<size_t>(k);
      double& d_x = d_x_[static_cast<size_t>(t * dims_.flat() + k)];
      const double x_k = std::fabs(site_.x[static_cast<size_t>(t * dims_.flat() + k)]);
      d_x += 2 * e_sum_squares * x_k;
      for (int64_t c = 0; c < m_; ++c) {
        const size_t ck = static_cast<size_t>(c * dims_.flat() + k);
        d_x += e_q[static_cast<size_t>(c)] * std::fabs(phi_eff_[ck]);
        const double e_d_phi = kSecondOrder * e_q[static_cast<size_t>(c)] * x_k;
        const bool folded = !params_.norm_weight.empty();
        d_phi_[ck] += e_d_phi * (folded ? std::fabs(params_.norm_weight[sk]) : 1.0);
        if (folded) d_norm_weight_[sk] += e_d_phi * std::fabs(params_.phi[ck]);
      }
      // Three sums through memory there and one rounding here, of d_x itself.
      const char* name = gates_.layout().post == 0 ? "head_d_x" : "d_x";
      d_x += kRoundings * kU *
             std::fabs(site_.expected.at(name)[static_cast<size_t>(t * dims_.flat() + k)]);
      d_x *= kSecondOrder;
    }
  }

  const Site& site_;
  const Parameters& params_;
  Dims dims_;
  reference::Gates<double> gates_;
  int64_t m_;
  Values phi_eff_;
  Values layer_input_, x_next_, d_x_, d_layer_output_, d_w_;  // bounds, as are those below
  Values d_phi_, d_alpha_, d_bias_, d_norm_weight_;
  Values q_, z_, h_pre_, h_post_, h_res_;  // of the token at hand
  double sum_squares_ = 0, inv_rms_ = 0;
};

}  // namespace mhc::golden
