#include "verify/expect_pre_backward.h"

#include <cmath>

#include "verify/parallel.h"

namespace mhc::verify {

std::vector<Output> outputs_of(const PreBackwardArgs& a) {
  return present_outputs({{"d_x", a.d_x},
                          {"d_phi", a.d_phi},
                          {"d_alpha", a.d_alpha},
                          {"d_bias", a.d_bias},
                          {"d_norm_weight", a.d_norm_weight}});
}

struct PreBackwardExpectation::Token {
  std::vector<double> x, du;
  double largest = 0;  // of all that is multiplied
  Bounded d_q, h_pre, h_res;
  Approximate d_sum_squares;
};

PreBackwardExpectation::PreBackwardExpectation(const PreBackwardArgs& a, bool split_phi)
    : layout_(gate_layout(a.spec, a.kind)),
      tokens_(a.x.shape[0]),
      features_(a.x.shape[1] * a.x.shape[2]),
      m_(layout_.coefficients()),
      unit_(unit_of(a.x.dtype)),
      phi_(a.params, a.spec, unit_, split_phi),
      parts_(split_phi ? 2 : 1),
      wants_phi_(a.d_phi.present() || a.d_norm_weight.present()),
      workers_(static_cast<size_t>(expectation_threads())) {
  for (Worker& w : workers_) {
    w.alpha = ParameterSums(layout_.groups());
    w.bias = ParameterSums(m_);
  }
}

namespace {

// Row t of a per-token tensor, or nothing; errors contiguous or null.
Bounded rows(const Tensor& tensor, int64_t t, const double* errors) {
  Bounded b;
  if (!tensor.present()) return b;
  b.value = widen(tokens_of(tensor, t, 1));
  b.bound.assign(b.value.size(), 0.0);
  for (size_t k = 0; k < b.value.size() && errors != nullptr; ++k) {
    b.bound[k] = errors[static_cast<size_t>(t) * b.value.size() + k];
  }
  return b;
}

}  // namespace

PreBackwardExpectation::Token PreBackwardExpectation::token_of(const PreBackwardArgs& a,
                                                               const InputErrors& errors, int64_t t,
                                                               Worker* worker) const {
  const int64_t n = a.x.shape[1], count = a.x.shape[2];
  Token out;
  out.x = widen(tokens_of(a.x, t, 1));
  out.du = widen(tokens_of(a.d_layer_input, t, a.d_layer_input.present() ? 1 : 0));
  out.largest = largest_finite(out.x.data(), features_) +
                largest_finite(out.du.data(), static_cast<int64_t>(out.du.size())) + phi_.largest;
  if (!a.z.present()) {
    out.d_q = rows(a.d_q, t, nullptr);
    for (double& v : out.d_q.value) {
      if (a.spec.gradient_precision == Precision::kBFloat16) v = round_to(DType::kBF16, v);
    }
    if (a.d_sum_squares.present()) out.d_sum_squares.value = a.d_sum_squares.load(t);
    return out;
  }
  Bounded d_h_pre = rows(a.d_h_pre, t, nullptr);
  if (!out.du.empty()) {
    if (d_h_pre.size() == 0) d_h_pre = Bounded(n);
    for (int64_t i = 0; i < n; ++i) {
      const size_t k = static_cast<size_t>(i);
      const Approximate p = product(out.x.data() + i * count, out.du.data(), count, unit_);
      d_h_pre.value[k] += p.value;
      d_h_pre.bound[k] += p.error + unit_ * std::fabs(d_h_pre.value[k]);
    }
  }
  Approximate ss;
  for (const double v : out.x) ss.value += v * v;
  ss.error = feature_chain(n, count) * unit_ * ss.value + kFlush * static_cast<double>(features_);
  if (!worker->gates) {
    worker->gates = std::make_unique<TapedGates>(a.spec, a.kind, features_, a.params.alpha,
                                                 a.params.bias, unit_);
  }
  const Bounded z = rows(a.z, t, errors.z);
  const Bounded inv_rms = rows(a.inv_rms, t, errors.inv_rms);
  const TapedGates::Backward b =
      worker->gates->backward(z, inv_rms.at(0), ss, d_h_pre, rows(a.d_h_post, t, errors.d_h_post),
                              rows(a.d_h_res, t, errors.d_h_res), true);
  add_gate_parameters(layout_, b.d_logit, z, gate_chain(tokens_, m_) * unit_, &worker->alpha,
                      &worker->bias);
  out.d_q = b.d_q;
  out.d_sum_squares = b.d_sum_squares.at(0);
  out.h_pre = b.h_pre;
  out.h_res = b.h_res;
  return out;
}

// d_phi_eff[k][c] += d_q[c] x[k]
void PreBackwardExpectation::add_d_phi(const Token& token, ParameterSums* sums) const {
  if (sums->value.empty()) *sums = ParameterSums(features_ * m_);
  const double chain = token_chain(tokens_) * unit_;
  std::vector<double> factor(static_cast<size_t>(m_));
  for (int64_t c = 0; c < m_; ++c) {
    const Approximate d = token.d_q.at(c);
    factor[static_cast<size_t>(c)] = chain * std::fabs(d.value) + d.error;
  }
  const double flush = kFlush * (3 + token.largest + largest_finite(token.d_q.value.data(), m_));
  for (int64_t k = 0; k < features_; ++k) {
    const double v = token.x[static_cast<size_t>(k)], magnitude = std::fabs(v);
    double* value = sums->value.data() + k * m_;
    double* bound = sums->bound.data() + k * m_;
    for (int64_t c = 0; c < m_; ++c) {
      value[c] += token.d_q.value[static_cast<size_t>(c)] * v;
      bound[c] += factor[static_cast<size_t>(c)] * magnitude + flush;
    }
  }
}

void PreBackwardExpectation::add_d_x(const PreBackwardArgs& a, const Token& token, int64_t t,
                                     Expected* d_x) const {
  const int64_t n = a.x.shape[1], count = a.x.shape[2];
  const double chain = static_cast<double>(m_ * parts_ + n + 5) * unit_;
  double* value = d_x->value.data() + t * features_;
  double* bound = d_x->bound.data() + t * features_;
  double largest = token.largest + largest_finite(token.d_q.value.data(), m_);
  const Tensor& given = a.d_x_next.present() ? a.d_x_next : a.d_x_post;
  const std::vector<double> g = widen(tokens_of(given, t, given.present() ? 1 : 0));
  largest += largest_finite(g.data(), static_cast<int64_t>(g.size()));
  for (int64_t i = 0; i < n; ++i) {
    double* v = value + i * count;
    double* b = bound + i * count;
    for (int64_t j = 0; j < n && a.d_x_next.present(); ++j) {
      const Approximate h =
          gate_in_mix(token.h_res.at(i * n + j), a.spec.h_res_precision, a.x.dtype);
      add_row(h.value, h.error, chain, g.data() + j * count, count, v, b);
      largest = std::max(largest, std::fabs(h.value));
    }
    if (a.d_x_post.present()) add_row(1, 0, chain, g.data() + i * count, count, v, b);
    if (!token.du.empty() && token.h_pre.size() > 0) {
      const Approximate h = gate_in_mix(token.h_pre.at(i), a.spec.h_pre_precision, a.x.dtype);
      add_row(h.value, h.error, chain, token.du.data(), count, v, b);
    }
    const Approximate norm{2 * token.d_sum_squares.value, 2 * token.d_sum_squares.error};
    add_row(norm.value, norm.error, chain, token.x.data() + i * count, count, v, b);
  }
  for (int64_t k = 0; k < features_ && token.d_q.size() > 0; ++k) {
    const double* phi = phi_.by_feature.data() + k * m_;
    double sum = 0, allowed = 0;
    for (int64_t c = 0; c < m_; ++c) {
      const size_t s = static_cast<size_t>(c);
      sum += token.d_q.value[s] * phi[c];
      allowed +=
          ((chain + phi_.relative_error) * std::fabs(token.d_q.value[s]) + token.d_q.bound[s]) *
          std::fabs(phi[c]);
    }
    value[k] += sum;
    bound[k] += allowed * (1 + chain + phi_.relative_error);
  }
  add_constant(kFlush * static_cast<double>(m_ + n + 3) * (3 + largest), features_, bound);
}

Expected PreBackwardExpectation::add(const PreBackwardArgs& slice, const InputErrors& errors) {
  const int64_t tokens = slice.x.shape[0];
  Expected d_x = sized("d_x", slice.d_x, {tokens, slice.x.shape[1], slice.x.shape[2]});
  const double work = static_cast<double>(tokens * features_ * m_);
  parallel_for(tokens, work, [&](int64_t t, int32_t w) {
    Worker& worker = workers_[static_cast<size_t>(w)];
    const Token token = token_of(slice, errors, t, &worker);
    if (wants_phi_ && token.d_q.size() > 0) add_d_phi(token, &worker.phi);
    if (slice.d_x.present()) add_d_x(slice, token, t, &d_x);
  });
  return d_x;
}

std::vector<Expected> PreBackwardExpectation::parameters(const PreBackwardArgs& a) const {
  ParameterSums phi(wants_phi_ ? features_ * m_ : 0), alpha(layout_.groups()), bias(m_);
  for (const Worker& w : workers_) {
    if (!w.phi.value.empty()) phi.add(w.phi);
    alpha.add(w.alpha);
    bias.add(w.bias);
  }
  const std::vector<double> unfolded = widen(a.params.phi), weight = widen(a.params.norm_weight);
  ParameterSums d_phi(a.d_phi.present() ? features_ * m_ : 0);
  ParameterSums d_weight(a.d_norm_weight.present() ? features_ : 0);
  for (int64_t k = 0; k < features_ && wants_phi_; ++k) {
    for (int64_t c = 0; c < m_; ++c) {
      const size_t at = static_cast<size_t>(c * features_ + k),
                   from = static_cast<size_t>(k * m_ + c);
      const size_t feature = static_cast<size_t>(k);
      if (!d_phi.value.empty()) {
        const double w = weight.empty() ? 1 : weight[feature];
        d_phi.value[at] = phi.value[from] * w;
        d_phi.bound[at] =
            phi.bound[from] * std::fabs(w) + unit_ * std::fabs(d_phi.value[at]) + kFlush;
      }
      if (!d_weight.value.empty()) {
        const double term = phi.value[from] * unfolded[at];
        d_weight.value[feature] += term;
        d_weight.bound[feature] += phi.bound[from] * std::fabs(unfolded[at]) +
                                   static_cast<double>(m_ + 2) * unit_ * std::fabs(term) + kFlush;
      }
    }
  }
  std::vector<Expected> all;
  const auto put = [&](const char* name, const Tensor& tensor, const ParameterSums& sums) {
    if (tensor.present()) all.push_back(sums.finish(name, tensor, a.accumulate, unit_));
  };
  put("d_phi", a.d_phi, d_phi);
  put("d_alpha", a.d_alpha, alpha);
  put("d_bias", a.d_bias, bias);
  put("d_norm_weight", a.d_norm_weight, d_weight);
  return all;
}

std::vector<Expected> expect(const PreBackwardArgs& a, bool split_phi, const InputErrors& errors) {
  PreBackwardExpectation expectation(a, split_phi);
  std::vector<Expected> all;
  Expected d_x = expectation.add(a, errors);
  if (a.d_x.present()) all.push_back(std::move(d_x));
  for (Expected& e : expectation.parameters(a)) all.push_back(std::move(e));
  return all;
}

}  // namespace mhc::verify
