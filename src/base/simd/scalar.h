#pragma once
// One lane of plain C++: the path of every processor, and the one to read first. See simd.h for the
// contract.

#include <cmath>

#include "base/simd/simd.h"

#define MHC_ISA scalar
#define MHC_ISA_HAS_DOT 0

namespace mhc::scalar {

inline constexpr bool kHasDot = false;

struct VF {
  static constexpr int64_t kLanes = 1;
  float v;
};

MHC_INLINE VF operator+(VF a, VF b) { return {a.v + b.v}; }
MHC_INLINE VF operator-(VF a, VF b) { return {a.v - b.v}; }
MHC_INLINE VF operator*(VF a, VF b) { return {a.v * b.v}; }
MHC_INLINE VF operator/(VF a, VF b) { return {a.v / b.v}; }
MHC_INLINE VF operator-(VF a) { return {-a.v}; }
MHC_INLINE VF fma(VF a, VF b, VF c) { return {a.v * b.v + c.v}; }

MHC_INLINE VF splat(float x) { return {x}; }
MHC_INLINE VF zero() { return {0.0f}; }
MHC_INLINE VF constant(VF, double c) { return {static_cast<float>(c)}; }
MHC_INLINE VF broadcast(const float* p) { return {*p}; }
// One lane holds no pair: these two complete the list and are never reached.
MHC_INLINE VF broadcast_pair(const float* p) { return {*p}; }
MHC_INLINE VF add_adjacent(VF a) { return a; }

template <class T>
MHC_INLINE VF load(const T* p) {
  return {to_float(*p)};
}
template <class T>
MHC_INLINE VF load(const T* p, int64_t count) {
  return {count > 0 ? to_float(*p) : 0.0f};
}
template <class T>
MHC_INLINE void store(T* p, VF a) {
  *p = from_float<T>(a.v);
}
template <class T>
MHC_INLINE void store(T* p, VF a, int64_t count) {
  if (count > 0) *p = from_float<T>(a.v);
}
template <class T>
MHC_INLINE void store(T* p, VF lo, VF hi) {
  p[0] = from_float<T>(lo.v);
  p[1] = from_float<T>(hi.v);
}
template <class T>
MHC_INLINE void stream(T* p, VF lo, VF hi) {
  store(p, lo, hi);
}
template <class T>
MHC_INLINE void load_mixed(const T* p, VF* a, VF* b) {
  *a = load(p);
  *b = load(p + 1);
}
template <class T>
MHC_INLINE void store_mixed(T* p, VF a, VF b) {
  store(p, a, b);
}
template <class T>
MHC_INLINE void stream_mixed(T* p, VF a, VF b) {
  store(p, a, b);
}
MHC_INLINE void stream_fence() {}
MHC_INLINE void prefetch(const void*) {}
MHC_INLINE void prefetch_l2(const void*) {}

MHC_INLINE float reduce_add(VF a) { return a.v; }

MHC_INLINE VF abs_of(VF a) { return {__builtin_fabsf(a.v)}; }
MHC_INLINE VF sqrt_of(VF a) { return {__builtin_sqrtf(a.v)}; }
MHC_INLINE VF exp_of(VF a) { return {__builtin_expf(a.v)}; }
MHC_INLINE VF max_of(VF a, VF b) { return {b.v > a.v || b.v != b.v ? b.v : a.v}; }
MHC_INLINE VF select_greater(VF a, VF b, VF x, VF y) { return a.v > b.v ? x : y; }
MHC_INLINE VF is_finite_select(VF a, VF x, VF y) {
  return __builtin_fabsf(a.v) < __builtin_inff() ? x : y;
}

MHC_INLINE VF clean_nan(VF a) { return a.v == a.v ? a : splat(__builtin_nanf("")); }

template <class T>
MHC_INLINE VF round_to(VF a) {
  return {to_float(from_float<T>(a.v))};
}
MHC_INLINE VF round_bf16(VF a) { return round_to<BF16>(a); }

}  // namespace mhc::scalar
