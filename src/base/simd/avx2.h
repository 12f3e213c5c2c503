#pragma once
// Eight lanes: AVX2, FMA and F16C. See simd.h for the contract.

#include <immintrin.h>

#include "base/simd/simd.h"

#define MHC_ISA avx2
#define MHC_ISA_HAS_DOT 0

namespace mhc::avx2 {

inline constexpr bool kHasDot = false;

struct VF {
  static constexpr int64_t kLanes = 8;
  __m256 v;
};

MHC_INLINE VF operator+(VF a, VF b) { return {a.v + b.v}; }
MHC_INLINE VF operator-(VF a, VF b) { return {a.v - b.v}; }
MHC_INLINE VF operator*(VF a, VF b) { return {a.v * b.v}; }
MHC_INLINE VF operator/(VF a, VF b) { return {a.v / b.v}; }
MHC_INLINE VF operator-(VF a) { return {-a.v}; }
MHC_INLINE VF fma(VF a, VF b, VF c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }

MHC_INLINE VF splat(float x) { return {_mm256_set1_ps(x)}; }
MHC_INLINE VF zero() { return {_mm256_setzero_ps()}; }
MHC_INLINE VF constant(VF, double c) { return splat(static_cast<float>(c)); }
MHC_INLINE VF broadcast(const float* p) { return splat(*p); }
MHC_INLINE VF broadcast_pair(const float* p) {
  double pair;
  __builtin_memcpy(&pair, p, sizeof(pair));
  return {_mm256_castpd_ps(_mm256_set1_pd(pair))};
}

// All ones in the lanes below count.
MHC_INLINE __m256i lanes_below(int64_t count) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(count)), lane);
}

// AVX2 has no masked access to 16-bit elements: 4, 2 and 1 are moved as the bits of count say.
MHC_INLINE __m128i load_16bit(const uint16_t* p, int64_t count) {
  if (count >= 8) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  uint64_t low = 0;
  uint64_t tail = 0;  // the elements behind the first four, or all when there are fewer
  const uint16_t* from = p + (count & 4);
  if ((count & 1) != 0) tail = from[count & 2];
  if ((count & 2) != 0) {
    uint32_t two;
    __builtin_memcpy(&two, from, sizeof(two));
    tail = tail << 32 | two;
  }
  if ((count & 4) == 0) return _mm_set_epi64x(0, static_cast<int64_t>(tail));
  __builtin_memcpy(&low, p, sizeof(low));
  return _mm_set_epi64x(static_cast<int64_t>(tail), static_cast<int64_t>(low));
}
MHC_INLINE void store_16bit(uint16_t* p, __m128i a, int64_t count) {
  if (count >= 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), a);
    return;
  }
  uint64_t bits = static_cast<uint64_t>(_mm_cvtsi128_si64(a));
  if ((count & 4) != 0) {
    __builtin_memcpy(p, &bits, 8);
    bits = static_cast<uint64_t>(_mm_extract_epi64(a, 1));
    p += 4;
  }
  if ((count & 2) != 0) {
    __builtin_memcpy(p, &bits, 4);
    bits >>= 32;
    p += 2;
  }
  if ((count & 1) != 0) *p = static_cast<uint16_t>(bits);
}

MHC_INLINE VF widen_bf16(__m128i a) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(a), 16))};
}

// The nearest bf16 of each lane in its upper half, to even; the lower half is not cleared. Right
// but for NaNs whose lower half could carry.
MHC_INLINE __m256i round_clean(VF a) {
  const __m256i u = _mm256_castps_si256(a.v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  return _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
}
// The same for every value: a NaN keeps its upper bits and becomes quiet.
MHC_INLINE __m256i round_to_upper_half(VF a) {
  const __m256i quiet = _mm256_or_si256(_mm256_castps_si256(a.v), _mm256_set1_epi32(0x400000));
  const __m256 nan = _mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q);
  return _mm256_blendv_epi8(round_clean(a), quiet, _mm256_castps_si256(nan));
}
MHC_INLINE __m256i narrow_bf16(VF lo, VF hi) {
  const __m256i l = _mm256_srli_epi32(round_to_upper_half(lo), 16);
  const __m256i h = _mm256_srli_epi32(round_to_upper_half(hi), 16);
  return _mm256_permute4x64_epi64(_mm256_packus_epi32(l, h), 0xd8);  // packed per half: 0 2 1 3
}
MHC_INLINE __m128i narrow_f16(VF a) {
  return _mm256_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

// One vector of T in its own width and back.
template <class T>
MHC_INLINE VF widen(__m128i a) {
  if constexpr (DTypeOf<T>::value == DType::kBF16) {
    return widen_bf16(a);
  } else {
    return {_mm256_cvtph_ps(a)};
  }
}
template <class T>
MHC_INLINE __m128i narrow(VF a) {
  if constexpr (DTypeOf<T>::value == DType::kBF16) {
    return _mm256_castsi256_si128(narrow_bf16(a, a));
  } else {
    return narrow_f16(a);
  }
}
template <class T>
MHC_INLINE __m256i narrow(VF lo, VF hi) {
  if constexpr (DTypeOf<T>::value == DType::kBF16) {
    return narrow_bf16(lo, hi);
  } else {
    return _mm256_set_m128i(narrow_f16(hi), narrow_f16(lo));
  }
}

template <class T>
MHC_INLINE VF load(const T* p) {
  if constexpr (DTypeOf<T>::value == DType::kF32) {
    return {_mm256_loadu_ps(p)};
  } else {
    return widen<T>(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
}
template <class T>
MHC_INLINE VF load(const T* p, int64_t count) {
  if constexpr (DTypeOf<T>::value == DType::kF32) {
    return {_mm256_maskload_ps(p, lanes_below(count))};
  } else {
    return widen<T>(load_16bit(&p->bits, count));
  }
}
template <class T>
MHC_INLINE void store(T* p, VF a) {
  if constexpr (DTypeOf<T>::value == DType::kF32) {
    _mm256_storeu_ps(p, a.v);
  } else {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), narrow<T>(a));
  }
}
template <class T>
MHC_INLINE void store(T* p, VF a, int64_t count) {
  if constexpr (DTypeOf<T>::value == DType::kF32) {
    _mm256_maskstore_ps(p, lanes_below(count), a.v);
  } else {
    store_16bit(&p->bits, narrow<T>(a), count);
  }
}
template <class T>
MHC_INLINE void store(T* p, VF lo, VF hi) {
  if constexpr (DTypeOf<T>::value == DType::kF32) {
    _mm256_storeu_ps(p, lo.v);
    _mm256_storeu_ps(p + 8, hi.v);
  } else {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow<T>(lo, hi));
  }
}
template <class T>
MHC_INLINE void stream(T* p, VF lo, VF hi) {
  if constexpr (DTypeOf<T>::value == DType::kF32) {
    _mm256_stream_ps(p, lo.v);
    _mm256_stream_ps(p + 8, hi.v);
  } else {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(p), narrow<T>(lo, hi));
  }
}

// Even elements lie in the lower halves of 32-bit lanes, odd ones in the upper.
MHC_INLINE __m256i interleave_bf16(VF even, VF odd) {
  return _mm256_blend_epi16(_mm256_srli_epi32(round_clean(even), 16), round_clean(odd), 0xaa);
}
template <class T>
MHC_INLINE void load_mixed(const T* p, VF* a, VF* b) {
  if constexpr (DTypeOf<T>::value == DType::kBF16) {
    const __m256i pairs = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m256i upper = _mm256_set1_epi32(static_cast<int32_t>(0xffff0000u));
    *a = {_mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16))};
    *b = {_mm256_castsi256_ps(_mm256_and_si256(pairs, upper))};
  } else {
    *a = load(p);
    *b = load(p + VF::kLanes);
  }
}
template <class T>
MHC_INLINE void store_mixed(T* p, VF a, VF b) {
  if constexpr (DTypeOf<T>::value == DType::kBF16) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), interleave_bf16(a, b));
  } else {
    store(p, a, b);
  }
}
template <class T>
MHC_INLINE void stream_mixed(T* p, VF a, VF b) {
  if constexpr (DTypeOf<T>::value == DType::kBF16) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(p), interleave_bf16(a, b));
  } else {
    stream(p, a, b);
  }
}
MHC_INLINE void stream_fence() { _mm_sfence(); }
MHC_INLINE void prefetch(const void* p) { __builtin_prefetch(p, 0, 3); }
MHC_INLINE void prefetch_l2(const void* p) { __builtin_prefetch(p, 0, 2); }

// Lanes at distance 4, then 2, then 1.
MHC_INLINE float reduce_add(VF a) {
  const __m128 four = _mm256_castps256_ps128(a.v) + _mm256_extractf128_ps(a.v, 1);
  const __m128 two = four + _mm_movehl_ps(four, four);
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
MHC_INLINE VF add_adjacent(VF a) {
  const __m256 sums = a.v + _mm256_movehdup_ps(a.v);
  return {_mm256_permutevar8x32_ps(sums, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6))};
}

MHC_INLINE VF abs_of(VF a) { return {_mm256_andnot_ps(_mm256_set1_ps(-0.0f), a.v)}; }
MHC_INLINE VF sqrt_of(VF a) { return {_mm256_sqrt_ps(a.v)}; }
// maxps returns its second operand when either is NaN, here a; a NaN in b is put back.
MHC_INLINE VF max_of(VF a, VF b) {
  const __m256 larger = _mm256_max_ps(b.v, a.v);
  return {_mm256_blendv_ps(larger, b.v, _mm256_cmp_ps(b.v, b.v, _CMP_UNORD_Q))};
}
MHC_INLINE VF select_greater(VF a, VF b, VF x, VF y) {
  return {_mm256_blendv_ps(y.v, x.v, _mm256_cmp_ps(a.v, b.v, _CMP_GT_OQ))};
}
MHC_INLINE VF is_finite_select(VF a, VF x, VF y) {
  return select_greater(splat(__builtin_inff()), abs_of(a), x, y);
}

MHC_INLINE VF clean_nan(VF a) {
  const __m256 nan = _mm256_cmp_ps(a.v, a.v, _CMP_UNORD_Q);
  return {_mm256_blendv_ps(a.v, _mm256_set1_ps(__builtin_nanf("")), nan)};
}

template <class T>
MHC_INLINE VF round_to(VF a) {
  if constexpr (DTypeOf<T>::value == DType::kF32) {
    return a;
  } else if constexpr (DTypeOf<T>::value == DType::kBF16) {
    const __m256i upper = _mm256_set1_epi32(static_cast<int32_t>(0xffff0000u));
    return {_mm256_castsi256_ps(_mm256_and_si256(round_to_upper_half(a), upper))};
  } else {
    return widen<T>(narrow<T>(a));
  }
}
MHC_INLINE VF round_bf16(VF a) { return round_to<BF16>(a); }

MHC_INLINE VF clamp_keeping_nan(VF a, float lowest, float highest) {
  const __m256 below = _mm256_min_ps(_mm256_set1_ps(highest), a.v);  // the second operand where NaN
  return {_mm256_max_ps(_mm256_set1_ps(lowest), below)};
}
MHC_INLINE VF round_to_integer(VF a) {
  return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// a 2^n in two exact halves of n, so that only the last product rounds, overflows or underflows.
MHC_INLINE VF scale_by_power(VF a, VF n) {
  const __m256i whole = _mm256_cvtps_epi32(n.v);
  const __m256i first = _mm256_srai_epi32(whole, 1);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i one = _mm256_slli_epi32(_mm256_add_epi32(first, bias), 23);
  const __m256i two = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, first), bias), 23);
  return {a.v * _mm256_castsi256_ps(one) * _mm256_castsi256_ps(two)};
}

#include "base/simd/exp-inl.h"

}  // namespace mhc::avx2
