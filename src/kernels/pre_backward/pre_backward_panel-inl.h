// Second phase of pre_backward: d_x and d_phi of one panel of 32 features for a wave of tokens. Compiled once per ISA.
//
// Plan (n = 4, m = 24): the panel of phi (n * m * 128 B = 12 KB) is folded once and stays in L1 for all tokens of the wave.
// A token's lines of x, g and du lie n * D elements from the next token's, in the same few cache sets, so each is touched
// once: prefetched kAhead tokens before, widened, and kept (x of a block: n * 128 * 128 B = 64 KB, in L2).
//   d_x    register tiles of kTileRows tokens by 2 vectors: per coefficient 2 loads of phi, kTileRows broadcasts of d_q,
//          2 kTileRows multiply-adds.
//   d_phi  register tiles of kTileColumns coefficients by 2 vectors over kTokenBlock tokens: per token 2 vectors of x,
//          kTileColumns broadcasts of d_q, 2 kTileColumns multiply-adds.
// The accumulators lie as [panel][n][m][32], so that a tile's rows are adjacent: as rows of [m][n][D] they would share one or
// two cache sets. Sums over tokens are one chain per block of kTokenBlock, blocks are added in ascending order.

#include "kernels/pre_backward/pre_backward_d_phi-inl.h"
#include "kernels/pre_backward/pre_backward_d_x-inl.h"

namespace mhc::MHC_ISA {

template <class T>
void backward_panel(const PreBackwardPlan& plan, int64_t group, int64_t panel, float* scratch) {
  const PanelScratch s(plan, panel, scratch);
  if (plan.args->d_x.present()) fold_panel(plan, s);
  for (int64_t block = plan.wave_begin; block < plan.wave_end; block += kTokenBlock) {
    const int64_t number = block / kTokenBlock;
    if (number % plan.groups != group) continue;
    const int64_t end = block + kTokenBlock < plan.wave_end ? block + kTokenBlock : plan.wave_end;
    d_x_any<T>(plan, block, end, s);
    if (plan.need_d_phi) d_phi_block(plan, block, end, number == group, s, plan.accumulator(group, panel));
  }
  if (plan.stream) stream_fence();
}

}  // namespace mhc::MHC_ISA
