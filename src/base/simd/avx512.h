#pragma once
// Sixteen lanes: AVX-512 F, BW, DQ and VL. See simd.h for the contract.

#include <immintrin.h>

#include "base/simd/simd.h"

#define MHC_ISA avx512
#define MHC_ISA_HAS_DOT 0

namespace mhc::avx512 {

MHC_INLINE __m512i bits_to_narrow(__m512 a) { return _mm512_castps_si512(a); }

#include "base/simd/avx512_narrow-inl.h"

inline constexpr bool kHasDot = false;

#include "base/simd/avx512-inl.h"

}  // namespace mhc::avx512
