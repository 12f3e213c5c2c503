#include "verify/taped_gates.h"

#include <algorithm>
#include <cmath>

#include "verify/buffer.h"

namespace mhc::verify {
namespace {

std::vector<Taped> zeros(int64_t count) { return std::vector<Taped>(static_cast<size_t>(count)); }

std::vector<Taped> constants(const Tensor& t) {
  std::vector<Taped> all;
  for (const double v : widen(t)) all.push_back({v, -1});
  return all;
}

}  // namespace

TapedGates::TapedGates(const Spec& spec, GateKind kind, int64_t features, const Tensor& alpha,
                       const Tensor& bias, double unit)
    : tape_(unit), gates_(spec, kind, features), alpha_(constants(alpha)), bias_(constants(bias)) {}

std::vector<Taped> TapedGates::inputs(const Bounded& b) {
  std::vector<Taped> all;
  for (int64_t i = 0; i < b.size(); ++i) {
    const Approximate a = b.at(i);
    all.push_back(a.error == 0 ? Taped{a.value, -1} : tape_.input(a.value, a.error));
  }
  return all;
}

void TapedGates::collect(const std::vector<Taped>& taped, double slack, Bounded* out) {
  *out = Bounded(static_cast<int64_t>(taped.size()));
  tape_.bounds(taped.data(), static_cast<int64_t>(taped.size()), out->bound.data());
  for (size_t i = 0; i < taped.size(); ++i) {
    out->value[i] = taped[i].value;
    out->bound[i] *= slack;
  }
}

double TapedGates::slack_of(const Bounded& z) const {
  double delta = 0;
  for (int64_t c = 0; c < z.size(); ++c) {
    const double alpha = alpha_[static_cast<size_t>(layout().group(c))].value;
    const double bias = bias_[static_cast<size_t>(c)].value;
    const Approximate a = z.at(c);
    const double own = std::fabs(alpha) * a.error +
                       2 * tape_.unit() * (std::fabs(alpha * a.value) + std::fabs(bias));
    if (own > delta) delta = own;
  }
  return std::exp(16 * delta);
}

TapedGates::Forward TapedGates::forward(const Bounded& q, Approximate sum_squares) {
  const Tape::Use use(&tape_);
  tape_.clear();
  const int64_t n = layout().streams;
  const std::vector<Taped> q_in = inputs(q);
  const Taped ss = tape_.input(sum_squares.value, sum_squares.error);
  std::vector<Taped> z = zeros(layout().coefficients()), inv_rms = zeros(1);
  std::vector<Taped> h_pre = zeros(n), h_post = zeros(layout().post),
                     h_res = zeros(layout().post * n);
  gates_.normalise(q_in.data(), ss, z.data(), inv_rms.data());
  gates_.forward(z.data(), alpha_.data(), bias_.data(),
                 {h_pre.data(), h_post.data(), h_res.data()});
  Forward out;
  collect(z, 1, &out.z);
  const double slack = slack_of(out.z);
  collect(inv_rms, slack, &out.inv_rms);
  collect(h_pre, slack, &out.h_pre);
  collect(h_post, slack, &out.h_post);
  collect(h_res, slack, &out.h_res);
  return out;
}

TapedGates::Backward TapedGates::backward(const Bounded& z, Approximate inv_rms,
                                          Approximate sum_squares, const Bounded& d_h_pre,
                                          const Bounded& d_h_post, const Bounded& d_h_res,
                                          bool with_gates) {
  const Tape::Use use(&tape_);
  tape_.clear();
  const int64_t n = layout().streams, m = layout().coefficients();
  const double slack = slack_of(z);
  const std::vector<Taped> z_in = inputs(z), pre = inputs(d_h_pre), post = inputs(d_h_post),
                           res = inputs(d_h_res);
  const Taped r = tape_.input(inv_rms.value, inv_rms.error);
  const Taped ss = tape_.input(sum_squares.value, sum_squares.error);
  const auto data = [](const std::vector<Taped>& v) { return v.empty() ? nullptr : v.data(); };
  std::vector<Taped> d_logit = zeros(m), d_q = zeros(m), d_ss = zeros(1);
  Backward out;
  if (with_gates) {
    std::vector<Taped> h_pre = zeros(n), h_post = zeros(layout().post),
                       h_res = zeros(layout().post * n);
    gates_.forward(z_in.data(), alpha_.data(), bias_.data(),
                   {h_pre.data(), h_post.data(), h_res.data()});
    collect(h_pre, slack, &out.h_pre);
    collect(h_res, slack, &out.h_res);
  }
  gates_.backward(z_in.data(), r, ss, alpha_.data(), bias_.data(),
                  {data(pre), data(post), data(res)}, d_logit.data(), d_q.data(), d_ss.data());
  collect(d_logit, slack, &out.d_logit);
  collect(d_q, slack, &out.d_q);
  collect(d_ss, slack, &out.d_sum_squares);
  return out;
}

}  // namespace mhc::verify
