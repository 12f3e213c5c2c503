// Two vectors of neighbouring features: the step of every loop over D in the streaming operations.
// With AVX-512 a chunk of 16-bit elements is one 64-byte line. Its two vectors hold the features in
// whatever order is cheapest (load_mixed), since no lane ever meets another. Compiled once per ISA
// behind a base/simd header.

#include "base/dims.h"

namespace mhc::MHC_ISA {

struct Chunk {
  VF a, b;
};
inline constexpr int64_t kChunk = 2 * VF::kLanes;
inline constexpr int64_t kLineBytes = 64;

// Features of a step: whole chunks and whole lines.
template <class T>
inline constexpr int64_t kStep = kChunk * static_cast<int64_t>(sizeof(T)) < kLineBytes
                                     ? kLineBytes / static_cast<int64_t>(sizeof(T))
                                     : kChunk;

enum class Access { kPart, kWhole, kStream };

MHC_INLINE int64_t at_most(int64_t count, int64_t limit) { return count < limit ? count : limit; }

// count matters in a part alone.
template <Access kAccess, class T>
MHC_INLINE Chunk load_chunk(const T* p, int64_t count) {
  if constexpr (kAccess == Access::kPart) {
    const int64_t first = at_most(count, VF::kLanes);
    return {load(p, first), load(p + first, count - first)};
  } else {
    Chunk c;
    load_mixed(p, &c.a, &c.b);
    return c;
  }
}

template <Access kAccess, class T>
MHC_INLINE void store_chunk(T* p, const Chunk& c, int64_t count) {
  if constexpr (kAccess == Access::kPart) {
    const int64_t first = at_most(count, VF::kLanes);
    store(p, c.a, first);
    store(p + first, c.b, count - first);
  } else if constexpr (kAccess == Access::kStream) {
    stream_mixed(p, c.a, c.b);
  } else {
    store_mixed(p, c.a, c.b);
  }
}

// Features in front of the first line that begins at or behind p.
template <class T>
MHC_INLINE int64_t unaligned_head(const T* p) {
  const auto behind = (uintptr_t{0} - reinterpret_cast<uintptr_t>(p)) % uintptr_t{kLineBytes};
  return static_cast<int64_t>(behind / sizeof(T));
}

// The lines of one step.
template <class T>
MHC_INLINE void prefetch_step(const T* p) {
  constexpr int64_t kLine = kLineBytes / static_cast<int64_t>(sizeof(T));
  for (int64_t k = 0; k < kStep<T>; k += kLine) prefetch_l2(p + k);
}

}  // namespace mhc::MHC_ISA
