#pragma once
// phi as the projection reads it: one stream of vectors in exactly the order of use.
//
// A *unit* is what one multiply-add takes of x: one feature as f32, or a pair of features as bf16 for the dot
// instruction. A *step* is two units. Per step and full vector of columns the layout holds the vector of unit 0,
// then that of unit 1. Where at most half a vector of columns is left over, both units share one vector (column l at
// lanes 2l and 2l+1) and meet x as a 64-bit broadcast: 24 columns then take 3 multiply-adds of 16 lanes per step, not 4.
// Every block of kFeatureBlock features of a stream starts at a step of its own and is padded with zeros.

#include <cstddef>
#include <cstdint>

#include "base/dims.h"
#include "base/macros.h"

namespace mhc {

struct PackedPhiLayout {
  int64_t columns = 0;   // m
  int64_t full = 0;      // full vectors of columns
  int64_t half = 0;      // 1: a half vector follows them
  int64_t padded = 0;    // columns with padding: full * lanes + half * lanes / 2
  int64_t unit = 1;      // features per unit
  int64_t parts = 1;     // 2: hi and lo parts of every vector, adjacent
  int64_t lanes = 1;     // 32-bit lanes of a vector

  // 32-bit words of one step.
  MHC_INLINE constexpr int64_t step_words() const { return (2 * full + half) * parts * lanes; }
  MHC_INLINE constexpr int64_t steps(int64_t features) const { return ceil_div(features, 2 * unit); }
  MHC_INLINE constexpr int64_t stream_steps(int64_t embedding) const {
    const int64_t rest = embedding % kFeatureBlock;
    return (embedding / kFeatureBlock) * steps(kFeatureBlock) + steps(rest);
  }
  MHC_INLINE constexpr int64_t words(int64_t streams, int64_t embedding) const {
    return streams * stream_steps(embedding) * step_words();
  }
  // First word of block `block` of stream i.
  MHC_INLINE constexpr int64_t block_offset(int64_t embedding, int64_t i, int64_t block) const {
    return (i * stream_steps(embedding) + block * steps(kFeatureBlock)) * step_words();
  }
};

// What packing needs besides: a folded chunk of a column, the weight's and the words.
inline constexpr int64_t kPackScratchFloats = 3 * 64;

constexpr PackedPhiLayout make_packed_phi_layout(int64_t columns, int64_t lanes, bool dot, bool split) {
  PackedPhiLayout p;
  p.columns = columns;
  p.lanes = lanes;
  p.unit = dot ? 2 : 1;
  p.parts = split ? 2 : 1;
  p.full = columns / lanes;
  const int64_t rest = columns - p.full * lanes;
  if (lanes >= 16 && rest > 0 && rest <= lanes / 2) {
    p.half = 1;
  } else if (rest > 0) {
    ++p.full;
  }
  p.padded = p.full * lanes + p.half * (lanes / 2);
  return p;
}

}  // namespace mhc
