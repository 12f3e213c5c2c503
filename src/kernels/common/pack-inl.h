// Packs phi (packed_phi.h) block by block. Compiled once per ISA behind a base/simd header and phi-inl.h.

#include "kernels/common/packed_phi.h"

namespace mhc::MHC_ISA {

inline constexpr int64_t kPackChunk = 64;  // features folded at a time: m rows of 256 bytes

// Words of one unit of one column: an f32, or two bf16; part 1 is what part 0 lost to rounding.
MHC_INLINE uint32_t pack_unit(const float* feature, int64_t unit, int64_t part) {
  if (unit == 1) return __builtin_bit_cast(uint32_t, feature[0]);
  uint32_t word = 0;
  for (int64_t k = 0; k < 2; ++k) {
    const BF16 hi = to_bf16(feature[k]);
    const BF16 value = part == 0 ? hi : to_bf16(feature[k] - to_float(hi));
    word |= static_cast<uint32_t>(value.bits) << (16 * k);
  }
  return word;
}

// One step (two units of every column) from rows of `stride` floats, feature d of the chunk first.
MHC_INLINE void pack_step(const PackedPhiLayout& layout, const float* rows, int64_t stride, int64_t d,
                          uint32_t* out) {
  const int64_t lanes = layout.lanes;
  for (int64_t vector = 0; vector < layout.full; ++vector) {
    for (int64_t u = 0; u < 2; ++u) {
      for (int64_t part = 0; part < layout.parts; ++part) {
        for (int64_t l = 0; l < lanes; ++l) {
          const int64_t c = vector * lanes + l;
          out[l] = c < layout.columns ? pack_unit(rows + c * stride + d + u * layout.unit, layout.unit, part) : 0;
        }
        out += lanes;
      }
    }
  }
  if (layout.half == 0) return;
  for (int64_t part = 0; part < layout.parts; ++part) {
    for (int64_t l = 0; l < lanes; ++l) {
      const int64_t c = layout.full * lanes + l / 2;
      out[l] = c < layout.columns
                   ? pack_unit(rows + c * stride + d + (l % 2) * layout.unit, layout.unit, part)
                   : 0;
    }
    out += lanes;
  }
}

// Block `block` of stream i. rows: m * kPackChunk floats, weight: kPackChunk floats of scratch.
inline void pack_phi_block(const PackedPhiLayout& layout, const Params& params, bool round, int64_t embedding,
                           int64_t streams, int64_t i, int64_t block, float* rows, float* weight,
                           uint32_t* packed) {
  const int64_t begin = block * kFeatureBlock;
  const int64_t end = begin + kFeatureBlock < embedding ? begin + kFeatureBlock : embedding;
  uint32_t* out = packed + layout.block_offset(embedding, i, block);
  for (int64_t d = begin; d < end; d += kPackChunk) {
    const int64_t count = end - d < kPackChunk ? end - d : kPackChunk;
    const bool folded = params.norm_weight.present();
    if (folded) load_row(params.norm_weight, i * embedding + d, count, weight);
    for (int64_t c = 0; c < layout.columns; ++c) {
      float* row = rows + c * kPackChunk;
      for (int64_t k = count; k < kPackChunk; ++k) row[k] = 0.0f;
      load_row(params.phi, (c * streams + i) * embedding + d, count, row);
      fold_row(folded ? weight : nullptr, round, count, row);
    }
    for (int64_t k = 0; k < count; k += 2 * layout.unit) {
      pack_step(layout, rows, kPackChunk, k, out);
      out += layout.step_words();
    }
  }
}

}  // namespace mhc::MHC_ISA
