#include "base/overlap.h"

namespace mhc {
namespace {

// Elements from the first to the last of dimensions [from, rank).
int64_t span_elements(const Tensor& t, int32_t from) {
  int64_t span = 1;
  for (int32_t i = from; i < t.rank; ++i) {
    if (t.shape[i] == 0) return 0;
    if (t.shape[i] > 1) span += (t.shape[i] - 1) * t.stride[i];
  }
  return span;
}

struct Blocks {
  int64_t pitch = 0;  // bytes from block to block
  int64_t size = 0;   // bytes of a block
};

// The tensor as equally spaced blocks of its dimensions [level, rank): the dimensions before must
// be evenly spaced together. Not possible: size 0.
Blocks blocks_of(const Tensor& t, int32_t level) {
  int64_t pitch = 0;
  int64_t count = 1;
  for (int32_t i = level - 1; i >= 0; --i) {
    if (t.shape[i] == 1) continue;
    if (pitch != 0 && t.stride[i] != pitch * count) return {};
    if (pitch == 0) pitch = t.stride[i];
    count *= t.shape[i];
  }
  const int64_t bytes = size_of(t.dtype);
  return {pitch * bytes, span_elements(t, level) * bytes};
}

}  // namespace

int64_t span_bytes(const Tensor& t) { return span_elements(t, 0) * size_of(t.dtype); }

bool elements_are_distinct(const Tensor& t) {
  bool placed[3] = {false, false, false};
  int64_t inner = 1;  // span of the dimensions placed so far, the tightest first
  for (int32_t round = 0; round < t.rank; ++round) {
    int32_t best = -1;
    for (int32_t i = 0; i < t.rank; ++i) {
      if (!placed[i] && (best < 0 || t.stride[i] < t.stride[best])) best = i;
    }
    placed[best] = true;
    if (t.shape[best] <= 1) continue;
    if (t.stride[best] < inner) return false;
    inner += (t.shape[best] - 1) * t.stride[best];
  }
  return true;
}

bool same_elements(const Tensor& a, const Tensor& b) {
  if (a.data != b.data || a.dtype != b.dtype || a.rank != b.rank) return false;
  for (int32_t i = 0; i < a.rank; ++i) {
    if (a.shape[i] != b.shape[i] || (a.shape[i] > 1 && a.stride[i] != b.stride[i])) return false;
  }
  return true;
}

bool rows_are_disjoint(const Tensor& a, const Tensor& b) {
  for (int32_t level_a = 1; level_a < a.rank; ++level_a) {
    for (int32_t level_b = 1; level_b < b.rank; ++level_b) {
      const Blocks p = blocks_of(a, level_a);
      const Blocks q = blocks_of(b, level_b);
      if (p.pitch <= 0 || p.pitch != q.pitch || p.size == 0 || q.size == 0) continue;
      const int64_t distance = static_cast<int64_t>(reinterpret_cast<uintptr_t>(b.data) -
                                                    reinterpret_cast<uintptr_t>(a.data));
      const int64_t offset = (distance % p.pitch + p.pitch) % p.pitch;
      if (offset >= p.size && offset + q.size <= p.pitch) return true;
    }
  }
  return false;
}

}  // namespace mhc
