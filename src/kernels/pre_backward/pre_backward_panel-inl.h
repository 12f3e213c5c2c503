#pragma once
// Second phase of pre_backward: d_x and d_phi of a few panels of 32 features for a wave of tokens.
// Compiled once per ISA.
//
// Plan (n = 4, m = 24): phi of the panels (n * m * 128 B = 12 KB each) is folded once and stays in
// L2 for all tokens of the wave; a tile of 8 tokens uses a panel for 1000 cycles. A token's lines
// of x, g and du lie n * D elements from the next token's, in the same few cache sets and another
// page, so they are touched once, 256 bytes at a time: prefetched kAhead tokens before, widened,
// and x kept for d_phi (n * 128 * 128 B = 64 KB per panel of a block, in L2).
//   d_x    register tiles of kTileRows tokens by 2 vectors: per coefficient 2 loads of phi,
//   kTileRows
//          broadcasts of d_q, 2 kTileRows multiply-adds.
//   d_phi  register tiles of kTileColumns coefficients by 2 vectors over kTokenBlock tokens: per
//          token 2 loads of x, kTileColumns broadcasts of d_q, 2 kTileColumns multiply-adds.
// The accumulators lie as [panel][n][m][32], so that a tile's rows are adjacent: as rows of
// [m][n][D] they would share one or two cache sets. Sums over tokens are one chain per block of
// kTokenBlock, blocks are added in ascending order.

#include "kernels/pre_backward/pre_backward_d_phi-inl.h"
#include "kernels/pre_backward/pre_backward_d_x-inl.h"

namespace mhc::MHC_ISA {

template <class T>
void backward_panels(const PreBackwardPlan& plan, int64_t group, int64_t first, int64_t last,
                     float* scratch) {
  for (int64_t p = first; plan.args->d_x.present() && p < last; ++p) {
    fold_panel<T>(plan, PanelScratch(plan, p, first, scratch));
  }
  LinesAhead ahead(plan, group, first, last);
  for (int64_t block = plan.wave_begin; block < plan.wave_end; block += kTokenBlock) {
    const int64_t number = block / kTokenBlock;
    if (number % plan.groups != group) continue;
    const int64_t end = block + kTokenBlock < plan.wave_end ? block + kTokenBlock : plan.wave_end;
    d_x_any<T>(plan, block, end, first, last, scratch, &ahead);
    for (int64_t p = first; plan.need_d_phi && p < last; ++p) {
      d_phi_block(plan, block, end, number == group, PanelScratch(plan, p, first, scratch),
                  plan.accumulator(group, p), &ahead);
    }
  }
  if (plan.stream) stream_fence();
}

}  // namespace mhc::MHC_ISA
