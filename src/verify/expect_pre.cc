// pre and the coefficients in both directions.

#include <cmath>
#include <memory>

#include "verify/expect.h"
#include "verify/expect_common.h"
#include "verify/parallel.h"
#include "verify/taped_gates.h"

namespace mhc::verify {
namespace {

void put(const Bounded& from, int64_t t, Expected* to) {
  const size_t at = static_cast<size_t>(t) * from.value.size();
  if (to->value.empty()) return;
  std::copy(from.value.begin(), from.value.end(),
            to->value.begin() + static_cast<std::ptrdiff_t>(at));
  std::copy(from.bound.begin(), from.bound.end(),
            to->bound.begin() + static_cast<std::ptrdiff_t>(at));
}

// The expectations of one call, empty where an output is absent.
struct PreExpected {
  Expected layer_input, z, inv_rms, h_pre, h_post, h_res, q, sum_squares;

  PreExpected(const PreArgs& a, int64_t tokens, int64_t n, int64_t m, int64_t count)
      : layer_input(sized("layer_input", a.layer_input, {tokens, count})),
        z(sized("z", a.z, {tokens, m})),
        inv_rms(sized("inv_rms", a.inv_rms, {tokens})),
        h_pre(sized("h_pre", a.h_pre, {tokens, n})),
        h_post(sized("h_post", a.h_post, {tokens, n})),
        h_res(sized("h_res", a.h_res, {tokens, n, n})),
        q(sized("q", a.q, {tokens, m})),
        sum_squares(sized("sum_squares", a.sum_squares, {tokens})) {}

  std::vector<Expected> list() {
    std::vector<Expected> all;
    for (Expected* e : {&layer_input, &z, &inv_rms, &h_pre, &h_post, &h_res, &q, &sum_squares}) {
      if (!e->name.empty()) all.push_back(std::move(*e));
    }
    return all;
  }
};

// q and sum x^2 of one token.
struct Projection {
  Bounded q;
  Approximate sum_squares;

  Projection(const std::vector<double>& x, int64_t n, const FoldedPhi& phi, double unit,
             int64_t parts)
      : q(phi.coefficients) {
    const int64_t features = static_cast<int64_t>(x.size()), m = phi.coefficients;
    std::vector<double> magnitudes(static_cast<size_t>(m), 0.0);
    for (int64_t k = 0; k < features; ++k) {
      const double* row = phi.by_feature.data() + k * m;
      const double v = x[static_cast<size_t>(k)], a = std::fabs(v);
      for (int64_t c = 0; c < m; ++c) {
        q.value[static_cast<size_t>(c)] += row[c] * v;
        magnitudes[static_cast<size_t>(c)] += std::fabs(row[c]) * a;
      }
      sum_squares.value += v * v;
    }
    const double chain = feature_chain(n, features / n, parts) * unit;
    const double flush = kFlush * static_cast<double>(features) *
                         (2 + phi.largest + largest_finite(x.data(), features));
    for (int64_t c = 0; c < m; ++c) {
      q.bound[static_cast<size_t>(c)] =
          (chain + phi.relative_error) * (1 + chain) * magnitudes[static_cast<size_t>(c)] + flush;
    }
    sum_squares.error = feature_chain(n, features / n) * unit * sum_squares.value + flush;
  }
};

}  // namespace

std::vector<Output> outputs_of(const PreArgs& a) {
  return present_outputs({{"layer_input", a.layer_input},
                          {"z", a.z},
                          {"inv_rms", a.inv_rms},
                          {"h_pre", a.h_pre},
                          {"h_post", a.h_post},
                          {"h_res", a.h_res},
                          {"q", a.q},
                          {"sum_squares", a.sum_squares}});
}

std::vector<Output> outputs_of(const CoefficientsArgs& a) {
  return present_outputs({{"z", a.z},
                          {"inv_rms", a.inv_rms},
                          {"h_pre", a.h_pre},
                          {"h_post", a.h_post},
                          {"h_res", a.h_res}});
}

std::vector<Output> outputs_of(const CoefficientsBackwardArgs& a) {
  return present_outputs({{"d_q", a.d_q},
                          {"d_sum_squares", a.d_sum_squares},
                          {"d_alpha", a.d_alpha},
                          {"d_bias", a.d_bias}});
}

std::vector<Expected> expect(const PreArgs& a, bool split_phi) {
  const int64_t tokens = a.x.shape[0], n = a.x.shape[1], count = a.x.shape[2];
  const double unit = unit_of(a.x.dtype);
  const FoldedPhi phi(a.params, a.spec, unit, split_phi);
  PreExpected out(a, tokens, n, phi.coefficients, count);
  const bool gated = a.params.alpha.present();
  std::vector<std::unique_ptr<TapedGates>> gates(static_cast<size_t>(expectation_threads()));
  const double work = static_cast<double>(tokens * n * count * phi.coefficients);
  parallel_for(tokens, work, [&](int64_t t, int32_t worker) {
    const std::vector<double> x = widen(tokens_of(a.x, t, 1));
    const Projection p(x, n, phi, unit, split_phi ? 2 : 1);
    put(p.q, t, &out.q);
    if (!out.sum_squares.value.empty()) {
      out.sum_squares.value[static_cast<size_t>(t)] = p.sum_squares.value;
      out.sum_squares.bound[static_cast<size_t>(t)] = p.sum_squares.error;
    }
    if (!gated) return;
    auto& own = gates[static_cast<size_t>(worker)];
    if (!own)
      own = std::make_unique<TapedGates>(a.spec, a.kind, n * count, a.params.alpha, a.params.bias,
                                         unit);
    const TapedGates::Forward f = own->forward(p.q, p.sum_squares);
    put(f.z, t, &out.z);
    put(f.inv_rms, t, &out.inv_rms);
    put(f.h_pre, t, &out.h_pre);
    put(f.h_post, t, &out.h_post);
    put(f.h_res, t, &out.h_res);
    if (out.layer_input.value.empty()) return;
    double* value = out.layer_input.value.data() + t * count;
    double* bound = out.layer_input.bound.data() + t * count;
    for (int64_t i = 0; i < n; ++i) {
      const Approximate h = gate_in_mix(f.h_pre.at(i), a.spec.h_pre_precision, a.x.dtype);
      add_row(h.value, h.error, static_cast<double>(n + 1) * unit, x.data() + i * count, count,
              value, bound);
    }
    const double largest =
        largest_finite(x.data(), n * count) + largest_finite(f.h_pre.value.data(), n);
    add_constant(kFlush * static_cast<double>(n + 1) * (2 + largest), count, bound);
  });
  return out.list();
}

std::vector<Expected> expect(const CoefficientsArgs& a) {
  const int64_t tokens = a.q.shape[0], m = a.q.shape[1], n = a.spec.streams;
  PreArgs names;  // the outputs that both have
  names.z = a.z;
  names.inv_rms = a.inv_rms;
  names.h_pre = a.h_pre;
  names.h_post = a.h_post;
  names.h_res = a.h_res;
  PreExpected out(names, tokens, n, m, 0);
  TapedGates gates(a.spec, a.kind, n * a.embedding_total, a.alpha, a.bias, unit_of(a.q.dtype));
  for (int64_t t = 0; t < tokens; ++t) {
    Bounded q(m);
    q.value = widen(tokens_of(a.q, t, 1));
    const TapedGates::Forward f = gates.forward(q, {a.sum_squares.load(t), 0});
    put(f.z, t, &out.z);
    put(f.inv_rms, t, &out.inv_rms);
    put(f.h_pre, t, &out.h_pre);
    put(f.h_post, t, &out.h_post);
    put(f.h_res, t, &out.h_res);
  }
  return out.list();
}

std::vector<Expected> expect(const CoefficientsBackwardArgs& a) {
  const int64_t tokens = a.z.shape[0], m = a.z.shape[1], n = a.spec.streams;
  const double unit = unit_of(a.z.dtype);
  Expected d_q = sized("d_q", a.d_q, {tokens, m}),
           d_ss = sized("d_sum_squares", a.d_sum_squares, {tokens});
  TapedGates gates(a.spec, a.kind, n * a.embedding_total, a.alpha, a.bias, unit);
  ParameterSums alpha(gates.layout().groups()), bias(m);
  const auto rows = [](const Tensor& tensor, int64_t t) {
    Bounded b;
    if (tensor.present()) b.value = widen(tokens_of(tensor, t, 1));
    b.bound.assign(b.value.size(), 0.0);
    return b;
  };
  for (int64_t t = 0; t < tokens; ++t) {
    const Bounded z = rows(a.z, t);
    const double ss = a.sum_squares.present() ? a.sum_squares.load(t) : 0;
    const TapedGates::Backward b =
        gates.backward(z, {a.inv_rms.load(t), 0}, {ss, 0}, rows(a.d_h_pre, t), rows(a.d_h_post, t),
                       rows(a.d_h_res, t), false);
    put(b.d_q, t, &d_q);
    put(b.d_sum_squares, t, &d_ss);
    add_gate_parameters(gates.layout(), b.d_logit, z, gate_chain(tokens, m) * unit, &alpha, &bias);
  }
  std::vector<Expected> all;
  if (a.d_q.present()) all.push_back(std::move(d_q));
  if (a.d_sum_squares.present()) all.push_back(std::move(d_ss));
  if (a.d_alpha.present()) all.push_back(alpha.finish("d_alpha", a.d_alpha, a.accumulate, unit));
  if (a.d_bias.present()) all.push_back(bias.finish("d_bias", a.d_bias, a.accumulate, unit));
  return all;
}

}  // namespace mhc::verify
