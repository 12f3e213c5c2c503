#pragma once
// Packs phi (packed_phi.h) block by block, column after column: a chunk of the output (6 KB at m =
// 24) stays in L1. Compiled once per ISA behind a base/simd header and phi-inl.h.

#include "kernels/common/packed_phi.h"
#include "kernels/common/phi-inl.h"

namespace mhc::MHC_ISA {

inline constexpr int64_t kPackChunk = 64;  // features folded at a time: 256 bytes of a row

// Words of one column's units, in part 0 as they are (or rounded to bf16), in part 1 what part 0
// lost to rounding.
MHC_INLINE void column_words(int64_t unit, int64_t part, const float* row, uint32_t* words) {
  for (int64_t k = 0; k < kPackChunk; k += VF::kLanes) {
    const VF v = load(row + k);
    if (unit == 1) {
      store(reinterpret_cast<float*>(words) + k, v);
    } else {  // two bf16 fill a word
      store(reinterpret_cast<BF16*>(words) + k, part == 0 ? v : v - round_bf16(v));
    }
  }
}

// Puts a chunk of column c where the projection reads it: the units of a step are adjacent.
MHC_INLINE void scatter_column(const PackedPhiLayout& layout, int64_t c, int64_t part,
                               int64_t steps, const uint32_t* words, uint32_t* out) {
  constexpr int64_t kUnits = VF::kLanes > 1 ? 2 : 1;
  const int64_t vector = c / layout.per_vector * layout.parts + part;
  const int64_t step_words = layout.step_words();
  out += vector * layout.lanes + c % layout.per_vector * kUnits;
  for (int64_t s = 0; s < steps; ++s, out += step_words) {
    for (int64_t u = 0; u < kUnits; ++u) out[u] = words[kUnits * s + u];
  }
}

// Block `block` of stream i. scratch: 3 * kPackChunk floats.
inline void pack_phi_block(const PackedPhiLayout& layout, const Params& params, bool round,
                           int64_t embedding, int64_t streams, int64_t i, int64_t block,
                           float* scratch, uint32_t* packed) {
  const int64_t begin = block * kFeatureBlock;
  const int64_t end = begin + kFeatureBlock < embedding ? begin + kFeatureBlock : embedding;
  float* weight = scratch;
  float* row = weight + kPackChunk;
  uint32_t* words = reinterpret_cast<uint32_t*>(row + kPackChunk);
  uint32_t* out = packed + layout.block_offset(embedding, i, block);
  for (int64_t d = begin; d < end; d += kPackChunk) {
    const int64_t count = end - d < kPackChunk ? end - d : kPackChunk;
    const int64_t steps = layout.steps(count);
    const int64_t chunk_words = steps * layout.step_words();
    if (layout.padded() != layout.columns) {
      for (int64_t k = 0; k < chunk_words; ++k) out[k] = 0;
    }
    const bool folded = params.norm_weight.present();
    if (folded) load_row(params.norm_weight, i * embedding + d, count, weight);
    for (int64_t c = 0; c < layout.columns; ++c) {
      for (int64_t k = count; k < kPackChunk; ++k) row[k] = 0.0f;
      load_row(params.phi, (c * streams + i) * embedding + d, count, row);
      if (folded || round) fold_row(folded ? weight : nullptr, round, count, row);
      for (int64_t part = 0; part < layout.parts; ++part) {
        column_words(layout.unit, part, row, words);
        scatter_column(layout, c, part, steps, words, out);
      }
    }
    out += chunk_words;
  }
}

}  // namespace mhc::MHC_ISA
