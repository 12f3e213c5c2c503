#pragma once
// The arithmetic between projection and mix, forward and backward, for a block of at most kLanes
// tokens: one token per lane, so that a sigmoid or a Sinkhorn step costs one instruction for all of
// them (scalar code would cost more than the whole of post). Every manifold in every ISA is a lot
// of code, so that only gates_<isa>.cc include this; the operations call it through
// gates_calls-inl.h.
//
// Lanes past `count` begin as zeros; they cost nothing and reach no output.

#include "kernels/common/gates_calls-inl.h"
#include "manifold/list.h"

namespace mhc::MHC_ISA {

// rows[lane * stride + c] <-> lanes of v[c].
MHC_INLINE void rows_to_lanes(const float* rows, int64_t stride, int64_t columns, int64_t count,
                              VF* v) {
  float* lanes = reinterpret_cast<float*>(v);
  for (int64_t c = 0; c < columns; ++c) v[c] = zero();
  if (rows == nullptr) return;
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t c = 0; c < columns; ++c) lanes[c * VF::kLanes + t] = rows[t * stride + c];
  }
}

MHC_INLINE void lanes_to_rows(const VF* v, int64_t columns, int64_t count, float* rows,
                              int64_t stride) {
  if (rows == nullptr) return;
  const float* lanes = reinterpret_cast<const float*>(v);
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t c = 0; c < columns; ++c) rows[t * stride + c] = lanes[c * VF::kLanes + t];
  }
}

// Lanes past `count` belong to no token, and the logits that their zeros stand for may be unlucky
// ones (0/0 in a Sinkhorn step without eps); they must not reach a sum over lanes.
MHC_INLINE void clear_lanes(VF* v, int64_t columns, int64_t count) {
  float* lanes = reinterpret_cast<float*>(v);
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t t = count; t < VF::kLanes; ++t) lanes[c * VF::kLanes + t] = 0.0f;
  }
}

// e/(1+e)^2 and the sigmoid itself from e = exp(-|logit|): s (1 - s) would be off by 100 % from
// logit 17 on.
struct Sigmoid {
  VF value, derivative;
  MHC_INLINE explicit Sigmoid(VF logit) {
    const VF one = splat(1.0f);
    const VF e = exp_of(-abs_of(logit));
    const VF scale = one / (one + e);
    value = select_greater(logit, zero(), one, e) * scale;
    derivative = e * scale * scale;
  }
};

// Calls f with the manifold type of this id.
template <class F, class... Ms>
MHC_INLINE void with_manifold(TypeList<Ms...>, int32_t id, const F& f) {
  (void)((Ms::id == id && (f(Ms{}), true)) || ...);
}

// The tuned size as a constant, so that the loops over streams unroll; a manifold of few sizes does
// that itself.
template <class M, class F>
MHC_INLINE void with_streams(int64_t n, const F& f) {
  if (M::max_streams > 5 && n == 4) {
    f(int64_t{4});
  } else {
    f(n);
  }
}

template <class M>
[[gnu::noinline]] void manifold_forward(const GateParams& p, const VF* logits, VF* h, VF* scratch) {
  with_streams<M>(p.layout.streams,
                  [&](int64_t n) { M::forward(n, p.options, logits, h, scratch); });
}

template <class M>
[[gnu::noinline]] void manifold_backward(const GateParams& p, const VF* logits, const VF* d_h,
                                         VF* d_logits, VF* scratch) {
  with_streams<M>(p.layout.streams,
                  [&](int64_t n) { M::backward(n, p.options, logits, d_h, d_logits, scratch); });
}

MHC_INLINE void transpose_square(int64_t n, VF* a) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < i; ++j) {
      const VF t = a[i * n + j];
      a[i * n + j] = a[j * n + i];
      a[j * n + i] = t;
    }
  }
}

// logit of coefficient c from its z.
MHC_INLINE VF logit_of(const GateParams& p, int64_t c, VF z) {
  return fma(splat(p.alpha[p.layout.group(c)]), z, splat(p.bias[c]));
}

// h_res of the block from the logits' z; the matrix is left in h (input-major).
MHC_INLINE void res_forward(const GateParams& p, const VF* z, VF* logits, VF* h, VF* scratch) {
  const int64_t first = p.layout.streams + p.layout.post;
  for (int64_t l = 0; l < p.layout.res; ++l) logits[l] = logit_of(p, first + l, z[first + l]);
  with_manifold(Manifolds{}, p.manifold, [&](auto manifold) {
    manifold_forward<decltype(manifold)>(p, logits, h, scratch);
  });
  if (p.transposed) transpose_square(p.layout.streams, h);
}

// q [count][q_stride] and sum_squares [count] to the rows that are asked for.
void gates_forward(const GateParams& p, int64_t count, const float* q, int64_t q_stride,
                   const float* sum_squares, const GateRows& out, float* scratch) {
  const int64_t m = p.coefficients;
  const int64_t n = p.layout.streams;
  VF* z = reinterpret_cast<VF*>(scratch);
  VF* gate = z + m;
  VF* h = gate + m;
  VF* own = h + 2 * n * n + m;
  rows_to_lanes(q, q_stride, m, count, z);
  VF ss;
  rows_to_lanes(sum_squares, 1, 1, count, &ss);
  const VF mean = ss * splat(p.inv_k);
  const VF one = splat(1.0f);
  const VF eps = splat(p.norm_eps);
  VF inv_rms = p.norm_outside ? one / (sqrt_of(mean) + eps) : one / sqrt_of(mean + eps);
  // A sum of squares that overflowed would give inv_rms = 0, finite gates and a wrong result; NaN
  // is visible.
  inv_rms = is_finite_select(ss, inv_rms, splat(__builtin_nanf("")));
  for (int64_t c = 0; c < m; ++c) z[c] = inv_rms * z[c];
  lanes_to_rows(z, m, count, out.z, m);
  lanes_to_rows(&inv_rms, 1, count, out.inv_rms, 1);

  if (out.h_pre != nullptr) {
    for (int64_t i = 0; i < n; ++i)
      gate[i] = Sigmoid(logit_of(p, i, z[i])).value + splat(p.pre_eps);
    lanes_to_rows(gate, n, count, out.h_pre, n);
  }
  if (out.h_post != nullptr) {
    const VF mult = splat(p.post_mult);
    for (int64_t j = 0; j < n; ++j) gate[j] = mult * Sigmoid(logit_of(p, n + j, z[n + j])).value;
    lanes_to_rows(gate, n, count, out.h_post, n);
  }
  if (out.h_res != nullptr) {
    res_forward(p, z, gate, h, own);
    lanes_to_rows(h, n * n, count, out.h_res, n * n);
  }
}

// d_logit of the whole block, from the cotangents of the gates.
MHC_INLINE void gate_cotangents(const GateParams& p, int64_t count, const GateCotangents& in,
                                const GateGradients& out, const VF* z, VF* d_logit, VF* work) {
  const int64_t n = p.layout.streams;
  const int64_t m = p.coefficients;
  VF* h = work;
  VF* d_h = h + n * n;
  VF* logits = d_h + n * n;
  VF* own = logits + m;
  rows_to_lanes(in.d_h_pre, n, n, count, d_logit);
  for (int64_t i = 0; i < n; ++i) {
    const Sigmoid s(logit_of(p, i, z[i]));
    d_logit[i] = d_logit[i] * s.derivative;
    logits[i] = s.value + splat(p.pre_eps);
  }
  lanes_to_rows(logits, n, count, out.h_pre, n);
  if (p.layout.post == 0) return;

  rows_to_lanes(in.d_h_post, n, n, count, d_logit + n);
  for (int64_t j = n; j < 2 * n; ++j) {
    d_logit[j] = d_logit[j] * (splat(p.post_mult) * Sigmoid(logit_of(p, j, z[j])).derivative);
  }
  if (out.h_res != nullptr) {
    res_forward(p, z, logits, h, own);
    lanes_to_rows(h, n * n, count, out.h_res, n * n);
  }
  if (in.d_h_res == nullptr) {
    for (int64_t c = 2 * n; c < m; ++c) d_logit[c] = zero();
    return;
  }
  rows_to_lanes(in.d_h_res, n * n, n * n, count, d_h);
  if (p.transposed) transpose_square(n, d_h);
  for (int64_t l = 0; l < p.layout.res; ++l) logits[l] = logit_of(p, 2 * n + l, z[2 * n + l]);
  with_manifold(Manifolds{}, p.manifold, [&](auto manifold) {
    manifold_backward<decltype(manifold)>(p, logits, d_h, d_logit + 2 * n, own);
  });
}

void gates_backward(const GateParams& p, int64_t count, const GateCotangents& in,
                    const GateGradients& out, float* scratch) {
  const int64_t m = p.coefficients;
  VF* z = reinterpret_cast<VF*>(scratch);
  VF* d = z + m;
  rows_to_lanes(in.z, m, m, count, z);
  gate_cotangents(p, count, in, out, z, d, d + m);

  clear_lanes(d, m, count);
  if (out.d_bias != nullptr) {
    VF by_group[kMaxGroups] = {zero(), zero(), zero()};
    for (int64_t c = 0; c < m; ++c) {
      out.d_bias[c] = reduce_add(d[c]);
      const int64_t g = p.layout.group(c);
      by_group[g] = fma(d[c], z[c], by_group[g]);
    }
    for (int64_t g = 0; g < p.layout.groups(); ++g) out.d_alpha[g] = reduce_add(by_group[g]);
  }
  VF inv_rms;
  rows_to_lanes(in.inv_rms, 1, 1, count, &inv_rms);
  VF sum = zero();
  for (int64_t c = 0; c < m; ++c) {
    d[c] = inv_rms * (splat(p.alpha[p.layout.group(c)]) * d[c]);
    if (p.round_gradient) d[c] = round_bf16(d[c]);
    sum = fma(d[c], z[c], sum);
  }
  lanes_to_rows(d, m, count, out.d_q, m);
  VF factor = inv_rms;
  if (p.norm_outside) {  // d rms / d x = x / (K rms), and nothing at a zero token
    VF ss;
    rows_to_lanes(in.sum_squares, 1, 1, count, &ss);
    const VF mean = ss * splat(p.inv_k);  // may be flushed where ss is not
    factor = select_greater(mean, zero(), splat(1.0f) / sqrt_of(mean), zero());
  }
  const VF norm = sum * factor * splat(p.inv_k);
  lanes_to_rows(&norm, 1, count, out.norm, 1);
}

}  // namespace mhc::MHC_ISA
