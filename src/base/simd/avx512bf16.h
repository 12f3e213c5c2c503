#pragma once
// Sixteen lanes: AVX-512 with BF16, whose conversions and dot product flush subnormals, round to
// nearest even and ignore the control word. See simd.h for the contract.
//
// With MHC_EMULATE_BF16_DOT the namespace is avx512bf16_emulated and AVX-512 alone does the same,
// bit by bit under the library's floating-point policy, so that the bf16 schedule can be tested on
// processors without BF16.

#include <immintrin.h>

#include "base/simd/simd.h"

#if defined(MHC_EMULATE_BF16_DOT)
#define MHC_ISA avx512bf16_emulated
#else
#define MHC_ISA avx512bf16
#endif

#define MHC_ISA_HAS_DOT 1

namespace mhc::MHC_ISA {

inline constexpr bool kHasDot = true;

// The words of the lower and the upper half in turn.
MHC_INLINE __m512i interleave_words(__m512i halves) {
  alignas(64) static constexpr uint16_t kOrder[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                      21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                      11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), halves);
}

#if defined(MHC_EMULATE_BF16_DOT)

// A subnormal becomes a zero of its sign.
MHC_INLINE __m512i bits_to_narrow(__m512 a) {
  const __m512i u = _mm512_castps_si512(a);
  const __mmask16 small = _mm512_testn_epi32_mask(u, _mm512_set1_epi32(0x7f800000));
  return _mm512_mask_and_epi32(u, small, u, _mm512_set1_epi32(static_cast<int32_t>(0x80000000u)));
}

#include "base/simd/avx512_narrow-inl.h"

#else

MHC_INLINE __m256i narrow_bf16(__m512 a) { return (__m256i)_mm512_cvtneps_pbh(a); }
MHC_INLINE __m512i narrow_bf16(__m512 lo, __m512 hi) {
  return (__m512i)_mm512_cvtne2ps_pbh(hi, lo);
}
MHC_INLINE __m512i interleave_bf16(__m512 even, __m512 odd) {
  return interleave_words(narrow_bf16(even, odd));
}

#endif

#include "base/simd/avx512-inl.h"

// Pair l holds elements 2l (even) and 2l + 1 (odd) of a row of bf16.
struct VP {
  static constexpr int64_t kLanes = 16;
  __m512i v;
};

MHC_INLINE VF even(VP a) { return {_mm512_castsi512_ps(_mm512_slli_epi32(a.v, 16))}; }
MHC_INLINE VF odd(VP a) {
  const __m512i upper = _mm512_set1_epi32(static_cast<int32_t>(0xffff0000u));
  return {_mm512_castsi512_ps(_mm512_and_si512(a.v, upper))};
}

#if defined(MHC_EMULATE_BF16_DOT)
MHC_INLINE VF dot(VF acc, VP a, VP b) { return fma(even(a), even(b), fma(odd(a), odd(b), acc)); }
#else
MHC_INLINE VF dot(VF acc, VP a, VP b) {
  return {_mm512_dpbf16_ps(acc.v, (__m512bh)a.v, (__m512bh)b.v)};
}
#endif

MHC_INLINE VP load_pairs(const BF16* p) { return {_mm512_loadu_si512(p)}; }
MHC_INLINE VP load_pairs(const BF16* p, int64_t count) {
  const auto mask = static_cast<__mmask32>((uint64_t{1} << count) - 1);
  return {_mm512_maskz_loadu_epi16(mask, p)};
}
MHC_INLINE void store_pairs(BF16* p, VP a) { _mm512_storeu_si512(p, a.v); }

MHC_INLINE VP broadcast_dot_pair(const BF16* p) {
  int32_t pair;
  __builtin_memcpy(&pair, p, sizeof(pair));
  return {_mm512_set1_epi32(pair)};
}
MHC_INLINE VP broadcast_dot_quad(const BF16* p) {
  int64_t quad;
  __builtin_memcpy(&quad, p, sizeof(quad));
  return {_mm512_set1_epi64(quad)};
}

MHC_INLINE VP narrow_pairs(VF even, VF odd) {
  return {interleave_words(narrow_bf16(even.v, odd.v))};
}

}  // namespace mhc::MHC_ISA
