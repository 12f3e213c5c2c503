// The rest of a SimdProbe for headers of more than one lane.

#include "base/simd/simd_probe-inl.h"

namespace mhc::MHC_ISA {

inline SimdProbe probe_wide(const char* name, Isa needs) {
  SimdProbe p = probe_all(name, needs);
  p.broadcast_pair = [](const float* pair, float* out) { put(out, broadcast_pair(pair)); };
  p.add_adjacent = [](const float* a, float* out) {
    float sums[VF::kLanes];
    put(sums, add_adjacent(take(a)));
    __builtin_memcpy(out, sums, sizeof(sums) / 2);
  };
  return p;
}

}  // namespace mhc::MHC_ISA
