#pragma once
// d_phi_eff of a block of tokens in one panel. Compiled once per ISA.

#include "kernels/pre_backward/pre_backward_ahead-inl.h"
#include "kernels/pre_backward/pre_backward_tile-inl.h"

namespace mhc::MHC_ISA {

// accumulators[c][k..] (+)= sum over a block's tokens of d_q[c] x[k..], for kColumns coefficients.
template <int kColumns>
MHC_INLINE void d_phi_tile(const float* d_q, int64_t m, const float* x, int64_t tokens, bool first,
                           float* accumulators, LinesAhead* ahead) {
  VF sum[kColumns][2];
  MHC_UNROLL for (int j = 0; j < kColumns; ++j) sum[j][0] = sum[j][1] = zero();
  for (int64_t t = 0; t < tokens; ++t, d_q += m, x += kPanel) {
    if (t % 2 == 0) ahead->ask();
    const VF lo = load(x);
    const VF hi = load(x + VF::kLanes);
    MHC_UNROLL for (int j = 0; j < kColumns; ++j) {
      const VF q = broadcast(d_q + j);
      sum[j][0] = fma(q, lo, sum[j][0]);
      sum[j][1] = fma(q, hi, sum[j][1]);
    }
  }
  MHC_UNROLL for (int j = 0; j < kColumns; ++j) {
    float* row = accumulators + j * kPanel;
    store(row, first ? sum[j][0] : load(row) + sum[j][0]);
    store(row + VF::kLanes, first ? sum[j][1] : load(row + VF::kLanes) + sum[j][1]);
  }
}

inline void d_phi_block(const PreBackwardPlan& plan, int64_t block, int64_t end, bool first,
                        const PanelScratch& s, float* accumulators, LinesAhead* shared) {
  LinesAhead ahead = *shared;
  const int64_t m = plan.gates.coefficients;
  const float* d_q = plan.d_q + (block - plan.wave_begin) * m;
  for (int64_t i = 0; i < plan.dims.streams; ++i) {
#if MHC_ISA_HAS_DOT
    if (plan.dot) pair_x(s.x + i * kTokenBlock * kPanel, end - block, s.x_pairs);
#endif
    for (int64_t k = 0; k < kPanel && k < s.count; k += kPair) {
      const float* x = s.x + i * kTokenBlock * kPanel + k;
      float* rows = accumulators + i * m * kPanel + k;
      int64_t c = 0;
      const auto run = [&](auto columns) {
        constexpr int kColumns = decltype(columns)::value;
        if (plan.dot) {
#if MHC_ISA_HAS_DOT
          const uint32_t* pairs = plan.token_pairs + (block - plan.wave_begin) / 2 * m + c;
          d_phi_tile_dot<kColumns>(pairs, m, s.x_pairs, ceil_div(end - block, 2), first,
                                   rows + c * kPanel, &ahead);
#endif
        } else {
          d_phi_tile<kColumns>(d_q + c, m, x, end - block, first, rows + c * kPanel, &ahead);
        }
        c += kColumns;
      };
      while (m - c >= kTileColumns) run(Count<kTileColumns>{});
      if (kTileColumns > 8 && m - c >= 8) run(Count<8>{});
      if (m - c >= 4) run(Count<4>{});
      if (m - c >= 2) run(Count<2>{});
      if (m - c >= 1) run(Count<1>{});
    }
  }
  *shared = ahead;
}

}  // namespace mhc::MHC_ISA
