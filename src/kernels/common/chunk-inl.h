// Two vectors of neighbouring features: the step of every loop over D in the streaming operations.
// With AVX-512 a chunk of 16-bit elements is one 64-byte line. Compiled once per ISA behind a
// base/simd header.

#include "base/dims.h"

namespace mhc::MHC_ISA {

struct Chunk {
  VF lo, hi;
};
inline constexpr int64_t kChunk = 2 * VF::kLanes;

// What a streaming store needs: its own size, and never more than a line.
template <class T>
inline constexpr int64_t kStreamAlign =
    kChunk * static_cast<int64_t>(sizeof(T)) < 64 ? kChunk * static_cast<int64_t>(sizeof(T)) : 64;

enum class Access { kPart, kWhole, kStream };

// Features of the first of two vectors, when there are count of them.
MHC_INLINE int64_t first_lanes(int64_t count) { return count < VF::kLanes ? count : VF::kLanes; }

// count matters in a part alone.
template <Access kAccess, class T>
MHC_INLINE Chunk load_chunk(const T* p, int64_t count) {
  if constexpr (kAccess == Access::kPart) {
    const int64_t first = first_lanes(count);
    return {load(p, first), load(p + first, count - first)};
  } else {
    return {load(p), load(p + VF::kLanes)};
  }
}

template <Access kAccess, class T>
MHC_INLINE void store_chunk(T* p, const Chunk& a, int64_t count) {
  if constexpr (kAccess == Access::kPart) {
    const int64_t first = first_lanes(count);
    store(p, a.lo, first);
    store(p + first, a.hi, count - first);
  } else if constexpr (kAccess == Access::kStream) {
    stream(p, a.lo, a.hi);
  } else {
    store(p, a.lo, a.hi);
  }
}

}  // namespace mhc::MHC_ISA
