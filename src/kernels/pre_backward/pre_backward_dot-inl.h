#pragma once
// gradient_precision bfloat16 on the bf16 dot unit: both products of the second phase with d_q
// rounded once. Empty where the ISA has no such unit.
//
//   d_x    pairs of coefficients: d_q (c, c+1) of a token against phi (c, c+1); phi in bf16, or
//          hi + lo at f32 grade
//   d_phi  pairs of tokens: d_q (t, t+1) of a coefficient against x (t, t+1), exact in bf16
//
// The dot unit does two multiply-adds where FMA does one (Zen 4): 1/2 of the time for d_phi and for
// d_x with phi in bf16.

#include "kernels/pre_backward/pre_backward_ahead-inl.h"

namespace mhc::MHC_ISA {

#if MHC_ISA_HAS_DOT

// phi [m][kPanel] of one stream to [parts][pairs][kPanel] words.
MHC_INLINE void pair_phi(const float* phi, int64_t m, int64_t pairs, int64_t parts, uint32_t* out) {
  for (int64_t p = 0; p < pairs; ++p) {
    for (int64_t k = 0; k < kPanel; k += VF::kLanes) {
      const VF even = load(phi + 2 * p * kPanel + k);
      const VF odd = 2 * p + 1 < m ? load(phi + (2 * p + 1) * kPanel + k) : zero();
      store_pairs(reinterpret_cast<BF16*>(out + p * kPanel + k), narrow_pairs(even, odd));
      if (parts == 1) continue;
      const VP rest = narrow_pairs(even - round_bf16(even), odd - round_bf16(odd));
      store_pairs(reinterpret_cast<BF16*>(out + (pairs + p) * kPanel + k), rest);
    }
  }
}

template <int kRows>
MHC_INLINE void through_phi_dot(const uint32_t* d_q, int64_t pairs, int64_t parts,
                                const uint32_t* phi, LinesAhead* ahead, VF (&sum)[kRows][2]) {
  MHC_UNROLL for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = zero();
  for (int64_t part = 0; part < parts; ++part) {
    for (int64_t p = 0; p < pairs; ++p, phi += kPanel) {
      ahead->ask();
      const VP lo = load_pairs(reinterpret_cast<const BF16*>(phi));
      const VP hi = load_pairs(reinterpret_cast<const BF16*>(phi + VF::kLanes));
      MHC_UNROLL for (int r = 0; r < kRows; ++r) {
        const VP q = broadcast_dot_pair(reinterpret_cast<const BF16*>(d_q + r * pairs + p));
        sum[r][0] = dot(sum[r][0], q, lo);
        sum[r][1] = dot(sum[r][1], q, hi);
      }
    }
  }
}

// x [tokens][kPanel] widened to words [tokens / 2][kPanel] of two tokens each.
MHC_INLINE void pair_x(const float* x, int64_t tokens, uint32_t* out) {
  for (int64_t t = 0; t < tokens; t += 2, out += kPanel) {
    for (int64_t k = 0; k < kPanel; k += VF::kLanes) {
      const VF even = load(x + t * kPanel + k);
      const VF odd = t + 1 < tokens ? load(x + (t + 1) * kPanel + k) : zero();
      store_pairs(reinterpret_cast<BF16*>(out + k), narrow_pairs(even, odd));
    }
  }
}

template <int kColumns>
MHC_INLINE void d_phi_tile_dot(const uint32_t* d_q, int64_t m, const uint32_t* x,
                               int64_t token_pairs, bool first, float* accumulators,
                               LinesAhead* ahead) {
  VF sum[kColumns][2];
  MHC_UNROLL for (int j = 0; j < kColumns; ++j) sum[j][0] = sum[j][1] = zero();
  for (int64_t t = 0; t < token_pairs; ++t, d_q += m, x += kPanel) {
    ahead->ask();
    const VP lo = load_pairs(reinterpret_cast<const BF16*>(x));
    const VP hi = load_pairs(reinterpret_cast<const BF16*>(x + VF::kLanes));
    MHC_UNROLL for (int j = 0; j < kColumns; ++j) {
      const VP q = broadcast_dot_pair(reinterpret_cast<const BF16*>(d_q + j));
      sum[j][0] = dot(sum[j][0], q, lo);
      sum[j][1] = dot(sum[j][1], q, hi);
    }
  }
  MHC_UNROLL for (int j = 0; j < kColumns; ++j) {
    float* row = accumulators + j * kPanel;
    store(row, first ? sum[j][0] : load(row) + sum[j][0]);
    store(row + VF::kLanes, first ? sum[j][1] : load(row + VF::kLanes) + sum[j][1]);
  }
}

#endif

}  // namespace mhc::MHC_ISA
