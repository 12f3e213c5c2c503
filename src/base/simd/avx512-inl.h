// Sixteen lanes of AVX-512 (F, BW, DQ, VL): the body of avx512.h and avx512bf16.h, which include it
// inside their namespace behind their own narrow_bf16(__m512) and narrow_bf16(__m512 lo, __m512
// hi); no #pragma once.

struct VF {
  static constexpr int64_t kLanes = 16;
  __m512 v;
};

MHC_INLINE VF operator+(VF a, VF b) { return {a.v + b.v}; }
MHC_INLINE VF operator-(VF a, VF b) { return {a.v - b.v}; }
MHC_INLINE VF operator*(VF a, VF b) { return {a.v * b.v}; }
MHC_INLINE VF operator/(VF a, VF b) { return {a.v / b.v}; }
MHC_INLINE VF operator-(VF a) { return {-a.v}; }
MHC_INLINE VF fma(VF a, VF b, VF c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }

MHC_INLINE VF splat(float x) { return {_mm512_set1_ps(x)}; }
MHC_INLINE VF zero() { return {_mm512_setzero_ps()}; }
MHC_INLINE VF constant(VF, double c) { return splat(static_cast<float>(c)); }
MHC_INLINE VF broadcast(const float* p) { return splat(*p); }
MHC_INLINE VF broadcast_pair(const float* p) {
  double pair;
  __builtin_memcpy(&pair, p, sizeof(pair));
  return {_mm512_castpd_ps(_mm512_set1_pd(pair))};
}

MHC_INLINE __mmask16 lanes_below(int64_t count) {
  return static_cast<__mmask16>((uint32_t{1} << count) - 1);
}

MHC_INLINE VF widen_bf16(__m256i a) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(a), 16))};
}
MHC_INLINE __m256i narrow_f16(VF a) {
  return _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

// One vector of T in its own width and back.
template <class T>
MHC_INLINE VF widen(__m256i a) {
  if constexpr (DTypeOf<T>::value == DType::kBF16) {
    return widen_bf16(a);
  } else {
    return {_mm512_cvtph_ps(a)};
  }
}
template <class T>
MHC_INLINE __m256i narrow(VF a) {
  if constexpr (DTypeOf<T>::value == DType::kBF16) {
    return narrow_bf16(a.v);
  } else {
    return narrow_f16(a);
  }
}
template <class T>
MHC_INLINE __m512i narrow(VF lo, VF hi) {
  if constexpr (DTypeOf<T>::value == DType::kBF16) {
    return narrow_bf16(lo.v, hi.v);
  } else {
    return _mm512_inserti64x4(_mm512_castsi256_si512(narrow_f16(lo)), narrow_f16(hi), 1);
  }
}

template <class T>
MHC_INLINE VF load(const T* p) {
  if constexpr (DTypeOf<T>::value == DType::kF32) {
    return {_mm512_loadu_ps(p)};
  } else {
    return widen<T>(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
}
template <class T>
MHC_INLINE VF load(const T* p, int64_t count) {
  if constexpr (DTypeOf<T>::value == DType::kF32) {
    return {_mm512_maskz_loadu_ps(lanes_below(count), p)};
  } else {
    return widen<T>(_mm256_maskz_loadu_epi16(lanes_below(count), p));
  }
}
template <class T>
MHC_INLINE void store(T* p, VF a) {
  if constexpr (DTypeOf<T>::value == DType::kF32) {
    _mm512_storeu_ps(p, a.v);
  } else {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow<T>(a));
  }
}
template <class T>
MHC_INLINE void store(T* p, VF a, int64_t count) {
  if constexpr (DTypeOf<T>::value == DType::kF32) {
    _mm512_mask_storeu_ps(p, lanes_below(count), a.v);
  } else {
    _mm256_mask_storeu_epi16(p, lanes_below(count), narrow<T>(a));
  }
}
template <class T>
MHC_INLINE void store(T* p, VF lo, VF hi) {
  if constexpr (DTypeOf<T>::value == DType::kF32) {
    _mm512_storeu_ps(p, lo.v);
    _mm512_storeu_ps(p + 16, hi.v);
  } else {
    _mm512_storeu_si512(p, narrow<T>(lo, hi));
  }
}
template <class T>
MHC_INLINE void stream(T* p, VF lo, VF hi) {
  if constexpr (DTypeOf<T>::value == DType::kF32) {
    _mm512_stream_ps(p, lo.v);
    _mm512_stream_ps(p + 16, hi.v);
  } else {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(p), narrow<T>(lo, hi));
  }
}

// Even elements lie in the lower halves of 32-bit lanes, odd ones in the upper.
template <class T>
MHC_INLINE void load_mixed(const T* p, VF* a, VF* b) {
  if constexpr (DTypeOf<T>::value == DType::kBF16) {
    const __m512i pairs = _mm512_loadu_si512(p);
    const __m512i upper = _mm512_set1_epi32(static_cast<int32_t>(0xffff0000u));
    *a = {_mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16))};
    *b = {_mm512_castsi512_ps(_mm512_and_si512(pairs, upper))};
  } else {
    *a = load(p);
    *b = load(p + VF::kLanes);
  }
}
template <class T>
MHC_INLINE void store_mixed(T* p, VF a, VF b) {
  if constexpr (DTypeOf<T>::value == DType::kBF16) {
    _mm512_storeu_si512(p, interleave_bf16(a.v, b.v));
  } else {
    store(p, a, b);
  }
}
template <class T>
MHC_INLINE void stream_mixed(T* p, VF a, VF b) {
  if constexpr (DTypeOf<T>::value == DType::kBF16) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(p), interleave_bf16(a.v, b.v));
  } else {
    stream(p, a, b);
  }
}
MHC_INLINE void stream_fence() { _mm_sfence(); }
MHC_INLINE void prefetch(const void* p) { __builtin_prefetch(p, 0, 3); }
MHC_INLINE void prefetch_l2(const void* p) { __builtin_prefetch(p, 0, 2); }

// Lanes at distance 8, then 4, 2 and 1.
MHC_INLINE float reduce_add(VF a) {
  const __m256 eight = _mm512_castps512_ps256(a.v) + _mm512_extractf32x8_ps(a.v, 1);
  const __m128 four = _mm256_castps256_ps128(eight) + _mm256_extractf128_ps(eight, 1);
  const __m128 two = four + _mm_movehl_ps(four, four);
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
MHC_INLINE VF add_adjacent(VF a) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 0, 2, 4, 6, 8, 10, 12, 14);
  return {_mm512_permutexvar_ps(even, a.v + _mm512_movehdup_ps(a.v))};
}

MHC_INLINE VF abs_of(VF a) { return {_mm512_abs_ps(a.v)}; }
MHC_INLINE VF sqrt_of(VF a) { return {_mm512_sqrt_ps(a.v)}; }
// maxps returns its second operand when either is NaN, here a; a NaN in b is put back.
MHC_INLINE VF max_of(VF a, VF b) {
  const __mmask16 nan = _mm512_cmp_ps_mask(b.v, b.v, _CMP_UNORD_Q);
  return {_mm512_mask_blend_ps(nan, _mm512_max_ps(b.v, a.v), b.v)};
}
MHC_INLINE VF select_greater(VF a, VF b, VF x, VF y) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ), y.v, x.v)};
}
MHC_INLINE VF is_finite_select(VF a, VF x, VF y) {
  return select_greater(splat(__builtin_inff()), abs_of(a), x, y);
}

MHC_INLINE VF clean_nan(VF a) {
  const __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
  return {_mm512_mask_blend_ps(nan, a.v, _mm512_set1_ps(__builtin_nanf("")))};
}

template <class T>
MHC_INLINE VF round_to(VF a) {
  if constexpr (DTypeOf<T>::value == DType::kF32) {
    return a;
  } else {
    return widen<T>(narrow<T>(a));
  }
}
MHC_INLINE VF round_bf16(VF a) { return round_to<BF16>(a); }

MHC_INLINE VF clamp_keeping_nan(VF a, float lowest, float highest) {
  const __m512 below = _mm512_min_ps(_mm512_set1_ps(highest), a.v);  // the second operand where NaN
  return {_mm512_max_ps(_mm512_set1_ps(lowest), below)};
}
MHC_INLINE VF round_to_integer(VF a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
MHC_INLINE VF scale_by_power(VF a, VF n) { return {_mm512_scalef_ps(a.v, n.v)}; }

#include "base/simd/exp-inl.h"
