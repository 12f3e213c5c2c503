#pragma once
// d_x of a block of tokens in one panel: its four terms in f32, rounded once. Compiled once per
// ISA.

#include "kernels/pre_backward/pre_backward_ahead-inl.h"
#include "kernels/pre_backward/pre_backward_terms-inl.h"

namespace mhc::MHC_ISA {

// sum[r] = sum_c d_q[c] phi[c] for kRows tokens and one pair of vectors.
template <int kRows>
MHC_INLINE void through_phi(const float* d_q, int64_t m, const float* phi, LinesAhead* ahead,
                            VF (&sum)[kRows][2]) {
  MHC_UNROLL for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = zero();
  for (int64_t c = 0; c < m; ++c, phi += kPanel) {
    if (c % 4 != 3) ahead->ask();
    const VF lo = load(phi);
    const VF hi = load(phi + VF::kLanes);
    MHC_UNROLL for (int r = 0; r < kRows; ++r) {
      const VF q = broadcast(d_q + r * m + c);
      sum[r][0] = fma(q, lo, sum[r][0]);
      sum[r][1] = fma(q, hi, sum[r][1]);
    }
  }
}

// The same for all streams of the panel, to s.sums.
template <class Term, int kRows>
MHC_INLINE void sums_through_phi(const PreBackwardPlan& plan, int64_t row, const PanelScratch& s,
                                 int64_t n, LinesAhead* ahead) {
  const int64_t m = plan.gates.coefficients;
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < kPanel && (Term::kWhole || k < s.count); k += kPair) {
      VF sum[kRows][2];
      if (plan.dot) {
#if MHC_ISA_HAS_DOT
        through_phi_dot<kRows>(plan.coefficient_pairs + row * plan.pairs(), plan.pairs(),
                               s.phi_parts, s.phi_pairs + i * s.phi_parts * plan.pairs() * kPanel,
                               ahead, sum);
#endif
      } else {
        through_phi<kRows>(plan.d_q + row * m, m, s.phi + i * m * kPanel + k, ahead, sum);
      }
      float* to = s.sums + i * kRows * kPanel + k;
      MHC_UNROLL for (int r = 0; r < kRows; ++r) {
        store(to + r * kPanel, sum[r][0]);
        store(to + r * kPanel + VF::kLanes, sum[r][1]);
      }
    }
  }
}

// kPair features of one token: its other terms added in f32 and rounded once; x is kept.
template <class T, class Term, int kRows>
MHC_INLINE void finish_d_x(const TokenTerms<T>& at, const Term& term, int64_t k, int64_t count) {
  constexpr bool kWhole = Term::kWhole;
  constexpr int64_t kL = VF::kLanes;
  constexpr int64_t kMost = Term::kStreams > 0 ? Term::kStreams : kMaxStreams;
  const int64_t n = term.n;
  const VF minus_norm = splat(-*at.norm);
  VF u[2], g[kMost][2];
  if (term.reads) load_two<kWhole>(at.du.p, k, count, u, u + 1);
  if (term.lazy) {
    MHC_UNROLL for (int64_t j = 0; j < n; ++j) {
      load_two<kWhole>(at.g.stream(j), k, count, g[j], g[j] + 1);
    }
  }
  MHC_UNROLL for (int64_t i = 0; i < n; ++i) {
    VF x[2];
    load_two<kWhole>(at.x.stream(i), k, count, x, x + 1);
    if (term.keeps) {
      float* kept = at.kept + i * kTokenBlock * kPanel + k;
      store(kept, x[0]);
      store(kept + kL, x[1]);
    }
    const float* sums = at.sums + i * kRows * kPanel + k;
    VF a = fma(minus_norm, x[0], load(sums));
    VF b = fma(minus_norm, x[1], load(sums + kL));
    if (term.reads) {
      const VF h = broadcast(at.h_pre + i);
      a = fma(h, u[0], a);
      b = fma(h, u[1], b);
    }
    if (term.lazy) {
      MHC_UNROLL for (int64_t j = 0; j < n; ++j) {
        const VF h = broadcast(at.h_res + i * n + j);
        a = fma(h, g[j][0], a);
        b = fma(h, g[j][1], b);
      }
    }
    if (term.eager) {
      VF post[2];
      load_two<kWhole>(at.post.stream(i), k, count, post, post + 1);
      a = a + post[0];
      b = b + post[1];
    }
    store_two<kWhole>(const_cast<T*>(at.d_x.stream(i)), k, count, at.stream_it, a, b);
  }
}

// d_x of tokens [t, t + kRows) in a panel, all streams.
template <class T, class Term, int kRows>
MHC_INLINE void d_x_tile(const PreBackwardPlan& plan, int64_t t, int64_t block,
                         const PanelScratch& s, LinesAhead* ahead) {
  const Term term(plan);
  sums_through_phi<Term, kRows>(plan, t - plan.wave_begin, s, term.n, ahead);
  TokenTerms<T> at(plan, term, t, block, s);
  const int64_t count = s.count;
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t k = 0; k < kPanel && (Term::kWhole || k < count); k += kPair) {
      finish_d_x<T, Term, kRows>(at, term, k, count);
    }
    at.advance(term.n);
  }
}

// x widened for d_phi, where no d_x is asked for.
template <class T>
MHC_INLINE void keep_x(const PreBackwardPlan& plan, int64_t block, int64_t end,
                       const PanelScratch& s) {
  for (int64_t t = block; t < end; ++t) {
    for (int64_t i = 0; i < plan.dims.streams; ++i) {
      float* kept = s.x + (i * kTokenBlock + t - block) * kPanel;
      for (int64_t k = 0; k < kPanel; k += kPair) {
        VF a, b;
        load_two<false>(plan.args->x.at<const T>(t, i, s.first), k, s.count, &a, &b);
        store(kept + k, a);
        store(kept + k + VF::kLanes, b);
      }
    }
  }
}

// Whatever the terms are and however much of the panel there is.
template <class T, int kRows>
[[gnu::noinline]] void d_x_tile_any(const PreBackwardPlan& plan, int64_t t, int64_t block,
                                    const PanelScratch& s, LinesAhead* ahead) {
  d_x_tile<T, Terms<false, 0>, kRows>(plan, t, block, s, ahead);
}

// All panels of a task, tile after tile of tokens.
template <class T, class Term>
[[gnu::noinline]] void d_x_block(const PreBackwardPlan& plan, int64_t block, int64_t end,
                                 int64_t first, int64_t last, float* scratch, LinesAhead* shared) {
  LinesAhead ahead = *shared;
  int64_t t = block;
  for (; t + kTileRows <= end; t += kTileRows) {
    ahead.keep_before(t + kTileRows);
    for (int64_t p = first; p < last; ++p) {
      const PanelScratch s(plan, p, first, scratch);
      if constexpr (Term::kWhole) {
        if (s.count == kPanel) {
          d_x_tile<T, Term, kTileRows>(plan, t, block, s, &ahead);
          continue;
        }
      }
      d_x_tile_any<T, kTileRows>(plan, t, block, s, &ahead);
    }
  }
  for (; t < end; ++t) {
    for (int64_t p = first; p < last; ++p)
      d_x_tile_any<T, 1>(plan, t, block, PanelScratch(plan, p, first, scratch), &ahead);
  }
  *shared = ahead;
}

// d_x of a block, or only x widened where d_x is not asked for.
template <class T>
MHC_INLINE void d_x_any(const PreBackwardPlan& plan, int64_t block, int64_t end, int64_t first,
                        int64_t last, float* scratch, LinesAhead* ahead) {
  const PreBackwardArgs& args = *plan.args;
  const auto run = [&](auto run_block) {
    run_block(plan, block, end, first, last, scratch, ahead);
  };
  if (!args.d_x.present()) {
    for (int64_t p = first; p < last; ++p)
      keep_x<T>(plan, block, end, PanelScratch(plan, p, first, scratch));
  } else if (!args.d_x_next.present() || !args.d_layer_input.present()) {
    run(d_x_block<T, Terms<false, 0>>);
  } else if (plan.dims.streams == 4) {
    run(d_x_block<T, Terms<true, 4>>);
  } else if (plan.dims.streams == 2) {
    run(d_x_block<T, Terms<true, 2>>);
  } else if (plan.dims.streams == 8) {
    run(d_x_block<T, Terms<true, 8>>);
  } else {
    run(d_x_block<T, Terms<true, 0>>);
  }
}

}  // namespace mhc::MHC_ISA
