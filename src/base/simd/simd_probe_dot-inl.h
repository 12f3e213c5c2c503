// The rest of a SimdProbe for headers with a bf16 dot product.

#include "base/simd/simd_probe_wide-inl.h"

namespace mhc::MHC_ISA {

MHC_INLINE VP take(const BF16* p) {
  VP a;
  __builtin_memcpy(&a, p, sizeof(a));
  return a;
}
MHC_INLINE void put(BF16* p, VP a) { __builtin_memcpy(p, &a, sizeof(a)); }

inline SimdProbe probe_dot(const char* name, Isa needs) {
  SimdProbe p = probe_wide(name, needs);
  p.dot = [](const float* acc, const BF16* a, const BF16* b, float* out) {
    put(out, dot(take(acc), take(a), take(b)));
  };
  p.copy_pairs = [](const BF16* from, BF16* out) { store_pairs(out, load_pairs(from)); };
  p.load_pairs_part = [](const BF16* from, int64_t count, BF16* out) {
    put(out, load_pairs(from, count));
  };
  p.broadcast_dot_pair = [](const BF16* from, BF16* out) { put(out, broadcast_dot_pair(from)); };
  p.broadcast_dot_quad = [](const BF16* from, BF16* out) { put(out, broadcast_dot_quad(from)); };
  p.narrow_pairs = [](const float* first, const float* second, BF16* out) {
    put(out, narrow_pairs(take(first), take(second)));
  };
  p.split = [](const BF16* from, float* first, float* second) {
    put(first, even(take(from)));
    put(second, odd(take(from)));
  };
  return p;
}

}  // namespace mhc::MHC_ISA
