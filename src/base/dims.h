#pragma once
// The three sizes of every problem, always under these names.

#include <cstdint>

#include "base/macros.h"

namespace mhc {

inline constexpr int64_t kMaxStreams = 16;

struct Dims {
  int64_t tokens = 0;     // T = batch * sequence
  int64_t streams = 0;    // n
  int64_t embedding = 0;  // D, of this shard

  MHC_INLINE constexpr int64_t flat() const { return streams * embedding; }  // K
  constexpr bool operator==(const Dims&) const = default;
};

// The sum over K features is a sum of partial sums over blocks of kFeatureBlock features of one
// stream, added in ascending order. The constant is part of the definition of a result: it may
// depend on nothing.
inline constexpr int64_t kFeatureBlock = 512;

// Sums over tokens (parameter gradients) are partial sums over kTokenBlock tokens, likewise.
inline constexpr int64_t kTokenBlock = 128;

MHC_INLINE constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
MHC_INLINE constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

}  // namespace mhc
