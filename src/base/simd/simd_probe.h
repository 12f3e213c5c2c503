#pragma once
// The operations of one vector header behind plain function pointers, so that a test compiled for
// any processor can call those of the instruction sets which this one has. Vectors are arrays of
// `lanes` floats.

#include <cstdint>

#include "base/dtype.h"
#include "base/isa.h"

namespace mhc {

enum class SimdOp {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kNegate,
  kFma,
  kAbs,
  kSqrt,
  kExp,
  kMax,
  kSelectGreater,
  kIsFiniteSelect,  // of a, b, c
  kCleanNan,
  kRoundF32,
  kRoundBf16,
  kRoundToBf16,
  kRoundF16,
  kSplat,      // lane 0 of a
  kBroadcast,  // lane 0 of a
  kConstant,   // lane 0 of a
  kZero,
};

struct SimdArguments {
  const float* a = nullptr;
  const float* b = nullptr;
  const float* c = nullptr;
  const float* d = nullptr;
};

// Made by `= {}`: default member values would be a constructor that ISA objects share with others.
template <class T>
struct SimdMemory {
  void (*load)(const T* p, float* out);
  void (*load_part)(const T* p, int64_t count, float* out);
  void (*store)(T* p, const float* a);
  void (*store_part)(T* p, const float* a, int64_t count);
  void (*store_two)(T* p, const float* a);  // 2 * lanes
  void (*stream_two)(T* p, const float* a);
  void (*load_mixed)(const T* p, float* out);  // both vectors, in their own order
  void (*store_mixed)(T* p, const float* a);
  void (*stream_mixed)(T* p, const float* a);
};

struct SimdProbe {
  const char* name;
  Isa needs;
  int64_t lanes;

  // Element by element over count values, a multiple of lanes.
  void (*apply)(SimdOp op, const SimdArguments& in, int64_t count, float* out);
  SimdMemory<float> f32;
  SimdMemory<BF16> bf16;
  SimdMemory<F16> f16;
  float (*reduce_add)(const float* a);

  // From two lanes on.
  void (*broadcast_pair)(const float* p, float* out);
  void (*add_adjacent)(const float* a, float* out);  // lanes / 2 results

  // Where there is a dot product. Rows of pairs have 2 * lanes elements.
  void (*dot)(const float* acc, const BF16* a, const BF16* b, float* out);
  void (*copy_pairs)(const BF16* p, BF16* out);
  void (*load_pairs_part)(const BF16* p, int64_t count, BF16* out);
  void (*broadcast_dot_pair)(const BF16* p, BF16* out);
  void (*broadcast_dot_quad)(const BF16* p, BF16* out);
  void (*narrow_pairs)(const float* even, const float* odd, BF16* out);
  void (*split)(const BF16* p, float* even, float* odd);
};

// One per header, defined in simd_test_<isa>.cc.
namespace scalar {
SimdProbe simd_probe();
}
namespace avx2 {
SimdProbe simd_probe();
}
namespace avx512 {
SimdProbe simd_probe();
}
namespace avx512bf16 {
SimdProbe simd_probe();
}
namespace avx512bf16_emulated {
SimdProbe simd_probe();
}

}  // namespace mhc
