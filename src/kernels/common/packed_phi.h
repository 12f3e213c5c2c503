#pragma once
// phi as the projection reads it: one stream of vectors in exactly the order of use.
//
// A *unit* is what one multiply-add takes of x: one feature as f32, or a pair of features as bf16
// for the dot instruction. A *step* is two units, and a vector holds half as many columns as it has
// lanes, column l at lanes 2l and 2l + 1 with one unit each, so that x meets it as a 64-bit
// broadcast: one load of x serves 24 columns with 3 multiply-adds of 16 lanes. (With whole vectors
// of columns and 32-bit broadcasts there are as many loads as multiply-adds, and 24 columns waste a
// quarter of the lanes.) One lane, the scalar path: a step is one unit. Every block of
// kFeatureBlock features of a stream starts at a step of its own and is padded with zeros.

#include <cstddef>
#include <cstdint>

#include "base/dims.h"
#include "base/macros.h"

namespace mhc {

struct PackedPhiLayout {
  int64_t columns = 0;     // m
  int64_t per_vector = 1;  // columns of one vector
  int64_t vectors = 0;
  int64_t step_units = 1;
  int64_t unit = 1;   // features per unit
  int64_t parts = 1;  // 2: hi and lo parts of every vector, adjacent
  int64_t lanes = 1;  // 32-bit lanes of a vector

  MHC_INLINE constexpr int64_t padded() const { return vectors * per_vector; }
  // 32-bit words of one step.
  MHC_INLINE constexpr int64_t step_words() const { return vectors * parts * lanes; }
  MHC_INLINE constexpr int64_t steps(int64_t features) const {
    return ceil_div(features, step_units * unit);
  }
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

constexpr PackedPhiLayout make_packed_phi_layout(int64_t columns, int64_t lanes, bool dot,
                                                 bool split) {
  PackedPhiLayout p;
  p.columns = columns;
  p.lanes = lanes;
  p.per_vector = lanes > 1 ? lanes / 2 : 1;
  p.step_units = lanes > 1 ? 2 : 1;
  p.vectors = ceil_div(columns, p.per_vector);
  p.unit = dot ? 2 : 1;
  p.parts = split ? 2 : 1;
  return p;
}

}  // namespace mhc
