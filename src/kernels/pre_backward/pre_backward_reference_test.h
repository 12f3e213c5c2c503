#pragma once
// A random problem of pre's backward.

#include <cstdint>
#include <vector>

#include "kernels/pre_backward/pre_backward.h"
#include "verify/filled.h"

namespace mhc::pre_backward_test {

using verify::Buffer;
using verify::random_filled;

inline double load(const Buffer& b, int64_t i, int64_t j = 0, int64_t k = 0) {
  return b.tensor().load(i, j, k);
}

// A random problem with every cotangent and every gradient. z and inv_rms are any numbers: the
// backward of a site does not ask where they come from.
struct Problem {
  Problem(const char* name, DType type, DType gate, int64_t tokens, int64_t n, int64_t embedding,
          DType parameter, const Spec& base = {})
      : random(verify::seed_of(name)), spec(base) {
    spec.streams = n;
    m = gate_layout(spec, GateKind::kSite).coefficients();
    x = random_filled(type, {tokens, n, embedding}, &random);
    phi = random_filled(parameter, {m, n, embedding}, &random, 0.5);
    alpha = random_filled(parameter, {3}, &random, 0.3, 1.0);
    bias = random_filled(parameter, {m}, &random);
    norm_weight = random_filled(parameter, {n, embedding}, &random, 0.2, 1.0);
    z = random_filled(gate, {tokens, m}, &random);
    inv_rms = random_filled(gate, {tokens}, &random, 0.1, 1.0);
    du = random_filled(type, {tokens, embedding}, &random);
    d_h_pre = random_filled(gate, {tokens, n}, &random);
    d_h_post = random_filled(gate, {tokens, n}, &random);
    d_h_res = random_filled(gate, {tokens, n, n}, &random);
    g = random_filled(type, {tokens, n, embedding}, &random);
    d_x = Buffer(type, {tokens, n, embedding});
    d_phi = Buffer(gate, {m, n, embedding});
    d_alpha = Buffer(gate, {3});
    d_bias = Buffer(gate, {m});
    d_norm_weight = Buffer(gate, {n, embedding});
  }

  PreBackwardArgs args() const {
    PreBackwardArgs a;
    a.spec = spec;
    a.x = x;
    a.params = {phi, alpha, bias, norm_weight};
    a.z = z;
    a.inv_rms = inv_rms;
    a.d_layer_input = du;
    a.d_h_pre = d_h_pre;
    a.d_h_post = d_h_post;
    a.d_h_res = d_h_res;
    a.d_x_next = g;
    a.d_x = d_x;
    a.d_phi = d_phi;
    a.d_alpha = d_alpha;
    a.d_bias = d_bias;
    a.d_norm_weight = d_norm_weight;
    return a;
  }

  // The same for some of the tokens.
  PreBackwardArgs args_of(int64_t begin, int64_t count) const {
    PreBackwardArgs a = args();
    for (Tensor* t : {&a.x, &a.z, &a.inv_rms, &a.d_layer_input, &a.d_h_pre, &a.d_h_post, &a.d_h_res,
                      &a.d_x_next, &a.d_x}) {
      *t = verify::tokens_of(*t, begin, count);
    }
    return a;
  }

  verify::Random random;
  Spec spec;
  int64_t m;
  Buffer x, phi, alpha, bias, norm_weight, z, inv_rms, du, d_h_pre, d_h_post, d_h_res, g;
  Buffer d_x, d_phi, d_alpha, d_bias, d_norm_weight;
};

}  // namespace mhc::pre_backward_test
