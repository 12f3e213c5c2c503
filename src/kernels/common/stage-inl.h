#pragma once
// A block of one token's features as the projection's units, and the block's part of the sum of
// squares. Compiled once per ISA behind a base/simd header and project-inl.h.

#include "kernels/common/project-inl.h"

namespace mhc::MHC_ISA {

// Words of one staged row: a block, padding to whole steps, and a cache line so that rows do not
// share L1 sets.
inline constexpr int64_t kStageWords = kFeatureBlock + 16;

// Widened to f32, with zeros up to a whole step. Returns where the units lie.
template <class T>
MHC_INLINE const float* stage(FmaUnit, const T* x, int64_t count, float* buffer,
                              float* sum_squares) {
  constexpr int64_t kL = VF::kLanes;
  VF a = zero();
  VF b = zero();
  int64_t k = 0;
  for (; k + 2 * kL <= count; k += 2 * kL) {
    const VF u = load(x + k);
    const VF v = load(x + k + kL);
    store(buffer + k, u);
    store(buffer + k + kL, v);
    a = fma(u, u, a);
    b = fma(v, v, b);
  }
  for (; k < count; k += kL) {
    const int64_t left = count - k < kL ? count - k : kL;
    const VF v = load(x + k, left);
    store(buffer + k, v, left);
    a = fma(v, v, a);
  }
  if (count % 2 != 0) buffer[count] = 0.0f;  // a step is at most two units
  *sum_squares += reduce_add(a + b);
  return buffer;
}

#if MHC_ISA_HAS_DOT
// Read in place, unless the block ends inside a step: then copied and padded, so that nothing
// behind the row enters a product (0 * NaN is NaN).
template <int64_t kParts>
MHC_INLINE const uint32_t* stage(DotUnit<kParts>, const BF16* x, int64_t count, uint32_t* buffer,
                                 float* sum_squares) {
  constexpr int64_t kL = 2 * VF::kLanes;
  VF a = zero();
  VF b = zero();
  int64_t k = 0;
  for (; k + 2 * kL <= count; k += 2 * kL) {
    const VP u = load_pairs(x + k);
    const VP v = load_pairs(x + k + kL);
    a = dot(a, u, u);
    b = dot(b, v, v);
  }
  for (; k < count; k += kL) {
    const int64_t left = count - k < kL ? count - k : kL;
    const VP v = load_pairs(x + k, left);
    a = dot(a, v, v);
  }
  *sum_squares += reduce_add(a + b);
  if (count % 4 == 0) return reinterpret_cast<const uint32_t*>(x);
  BF16* copy = reinterpret_cast<BF16*>(buffer);
  for (k = 0; k < count; k += kL) {
    const int64_t left = count - k < kL ? count - k : kL;
    store_pairs(copy + k, load_pairs(x + k, left));
  }
  return buffer;
}
#endif

}  // namespace mhc::MHC_ISA
