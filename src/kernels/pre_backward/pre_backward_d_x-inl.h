#pragma once
// d_x of a block of tokens in one panel: its four terms in f32, rounded once. Compiled once per
// ISA.

#include "kernels/pre_backward/pre_backward_tile-inl.h"

namespace mhc::MHC_ISA {

// The terms of d_x besides those through phi and the norm. The usual call, both of lazy and reads
// on a whole panel, is compiled for itself (kUsual), and again with the usual number of streams as
// a constant (kStreams > 0).
template <bool kUsual, int kStreams>
struct Terms {
  static constexpr bool kWhole = kUsual;
  bool lazy;   // h_res g
  bool reads;  // h_pre du
  bool eager;  // a ready d_x of post
  int64_t n;
  MHC_INLINE explicit Terms(const PreBackwardPlan& plan)
      : lazy(kUsual || (plan.args->d_x.present() && plan.args->d_x_next.present())),
        reads(kUsual || (plan.args->d_x.present() && plan.args->d_layer_input.present())),
        eager(!kUsual && plan.args->d_x_post.present()),
        n(kStreams > 0 ? kStreams : plan.dims.streams) {}
};

// Widens the panel's lines of tokens [t, t + kRows).
template <class T, class Term, int kRows>
MHC_INLINE void widen_tile(const PreBackwardPlan& plan, int64_t t, int64_t block,
                           const PanelScratch& s) {
  const PreBackwardArgs& args = *plan.args;
  const Term term(plan);
  const auto widen = [&](const Tensor& tensor, int64_t i, int64_t stride, float* out,
                         int64_t out_stride) {
    const T* p = tensor.at<const T>(t) + i * stride + s.first;
    widen_lines<Term::kWhole, kRows>(p, tensor.stride[0], s.count, out, out_stride);
  };
  if (term.reads) widen(args.d_layer_input, 0, 0, s.du, kPanel);
  for (int64_t i = 0; i < term.n; ++i) {
    widen(args.x, i, args.x.stride[1], s.x + (i * kTokenBlock + t - block) * kPanel, kPanel);
    if (term.lazy)
      widen(args.d_x_next, i, args.d_x_next.stride[1], s.g + i * kPanel, term.n * kPanel);
  }
}

// A line of each of a few later tokens, asked for one at a time between multiply-adds: asked for together they would wait
// for each other in the processor's few fill buffers.
struct LinesAhead {
  const char* next;
  int64_t stride;  // bytes from token to token
  MHC_INLINE void ask() {
    prefetch_l2(next);
    next += stride;
  }
};

template <class T>
MHC_INLINE LinesAhead lines_ahead(const PreBackwardPlan& plan, const Tensor& tensor, int64_t t,
                                  int64_t i, int64_t feature, int64_t rows) {
  const int64_t later = t + kAhead + rows <= plan.wave_end ? t + kAhead : t;
  return {reinterpret_cast<const char*>(tensor.at<const T>(later, i, feature)),
          rows > 1 ? tensor.stride[0] * static_cast<int64_t>(sizeof(T)) : 0};
}

// sum[r] = sum_c d_q[c] phi[c] for kRows tokens and one pair of vectors.
template <int kRows>
MHC_INLINE void through_phi(const float* d_q, int64_t m, const float* phi, LinesAhead ahead,
                            VF (&sum)[kRows][2]) {
  MHC_UNROLL for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = zero();
  for (int64_t c = 0; c < m; ++c, phi += kPanel) {
    if (c % 2 == 0 && c < 2 * kRows) ahead.ask();
    const VF lo = load(phi);
    const VF hi = load(phi + VF::kLanes);
    MHC_UNROLL for (int r = 0; r < kRows; ++r) {
      const VF q = broadcast(d_q + r * m + c);
      sum[r][0] = fma(q, lo, sum[r][0]);
      sum[r][1] = fma(q, hi, sum[r][1]);
    }
  }
}

// The four terms of d_x for tokens [t, t + kRows), all streams, added in f32 and rounded once.
template <class T, class Term, int kRows>
MHC_INLINE void d_x_tile(const PreBackwardPlan& plan, int64_t t, int64_t block,
                         const PanelScratch& panel) {
  const PreBackwardArgs& args = *plan.args;
  constexpr int64_t kL = VF::kLanes;
  const PanelScratch s =
      panel;  // copies: the stores below could otherwise be to what these point to
  const Term term(plan);
  const int64_t n = term.n;
  const int64_t m = plan.gates.coefficients;
  const int64_t row = t - plan.wave_begin;
  const float* d_q = plan.d_q + row * m;
  const float* norm = plan.norm + row;
  const float* h_pre = plan.h_pre + row * n;
  const float* h_res = plan.h_res + row * n * n;
  const bool stream_it = plan.stream;
  const int64_t d_x_stride = args.d_x.stride[0];
  widen_tile<T, Term, kRows>(plan, t, block, s);
  for (int64_t i = 0; i < n; ++i) {
    T* d_x = args.d_x.at<T>(t, i, s.first);
    const LinesAhead x_ahead = lines_ahead<T>(plan, args.x, t, i, s.first, kRows);
    LinesAhead g_ahead =
        lines_ahead<T>(plan, term.lazy ? args.d_x_next : args.x, t, i, s.first, kRows);
    for (int64_t k = 0; k < kPanel && (Term::kWhole || k < s.count); k += kPair) {
      VF sum[kRows][2];
      if (plan.dot) {
#if MHC_ISA_HAS_DOT
        through_phi_dot<kRows>(plan.coefficient_pairs + row * plan.pairs(), plan.pairs(),
                               s.phi_parts, s.phi_pairs + i * s.phi_parts * plan.pairs() * kPanel,
                               sum);
#endif
      } else {
        through_phi<kRows>(d_q, m, s.phi + i * m * kPanel + k, x_ahead, sum);
      }
      const float* x = s.x + (i * kTokenBlock + t - block) * kPanel + k;
      MHC_UNROLL for (int r = 0; r < kRows; ++r) {
        if (term.lazy) g_ahead.ask();
        const VF minus_norm = splat(-norm[r]);
        VF a = fma(minus_norm, load(x + r * kPanel), sum[r][0]);
        VF b = fma(minus_norm, load(x + r * kPanel + kL), sum[r][1]);
        if (term.reads) {
          const VF h = broadcast(h_pre + r * n + i);
          a = fma(h, load(s.du + r * kPanel + k), a);
          b = fma(h, load(s.du + r * kPanel + k + kL), b);
        }
        if (term.lazy) {
          const float* g = s.g + r * n * kPanel + k;
          MHC_UNROLL for (int64_t j = 0; j < n; ++j) {
            const VF h = broadcast(h_res + (r * n + i) * n + j);
            a = fma(h, load(g + j * kPanel), a);
            b = fma(h, load(g + j * kPanel + kL), b);
          }
        }
        if (term.eager) {
          VF lo, hi;
          load_two<false>(args.d_x_post.at<const T>(t + r, i, s.first), k, s.count, &lo, &hi);
          a = a + lo;
          b = b + hi;
        }
        store_two<Term::kWhole>(d_x + r * d_x_stride, k, s.count, stream_it, a, b);
      }
    }
  }
}

// Whatever the terms are and however much of the panel there is.
template <class T, int kRows>
[[gnu::noinline]] void d_x_tile_any(const PreBackwardPlan& plan, int64_t t, int64_t block,
                                    const PanelScratch& s) {
  d_x_tile<T, Terms<false, 0>, kRows>(plan, t, block, s);
}

// All panels of a task, tile after tile of tokens.
template <class T, class Term>
[[gnu::noinline]] void d_x_block(const PreBackwardPlan& plan, int64_t block, int64_t end,
                                 int64_t first, int64_t last, float* scratch) {
  int64_t t = block;
  for (; t + kTileRows <= end; t += kTileRows) {
    for (int64_t p = first; p < last; ++p) {
      const PanelScratch s(plan, p, first, scratch);
      if constexpr (Term::kWhole) {
        if (s.count == kPanel) {
          d_x_tile<T, Term, kTileRows>(plan, t, block, s);
          continue;
        }
      }
      d_x_tile_any<T, kTileRows>(plan, t, block, s);
    }
  }
  for (; t < end; ++t) {
    for (int64_t p = first; p < last; ++p)
      d_x_tile_any<T, 1>(plan, t, block, PanelScratch(plan, p, first, scratch));
  }
}

// d_x of a block, or only x widened where d_x is not asked for.
template <class T>
MHC_INLINE void d_x_any(const PreBackwardPlan& plan, int64_t block, int64_t end, int64_t first,
                        int64_t last, float* scratch) {
  const PreBackwardArgs& args = *plan.args;
  if (!args.d_x.present()) {
    for (int64_t t = block; t < end; ++t) {
      for (int64_t p = first; p < last; ++p) {
        widen_tile<T, Terms<false, 0>, 1>(plan, t, block, PanelScratch(plan, p, first, scratch));
      }
    }
  } else if (!args.d_x_next.present() || !args.d_layer_input.present()) {
    d_x_block<T, Terms<false, 0>>(plan, block, end, first, last, scratch);
  } else if (plan.dims.streams == 4) {
    d_x_block<T, Terms<true, 4>>(plan, block, end, first, last, scratch);
  } else {
    d_x_block<T, Terms<true, 0>>(plan, block, end, first, last, scratch);
  }
}

}  // namespace mhc::MHC_ISA
