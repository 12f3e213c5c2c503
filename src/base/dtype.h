#pragma once
// Element types and their conversions, bit by bit. ISA files include this: all is forced inline,
// and std::bit_cast, which is not, is avoided.

#include <cstddef>
#include <cstdint>

#include "base/macros.h"

namespace mhc {

enum class DType : int32_t { kF32 = 0, kBF16 = 1, kF16 = 2, kF64 = 3 };
inline constexpr int32_t kDTypes = 4;

MHC_INLINE constexpr bool is_valid(DType t) {
  return static_cast<int32_t>(t) >= 0 && static_cast<int32_t>(t) < kDTypes;
}

MHC_INLINE constexpr int64_t size_of(DType t) {
  constexpr int64_t kSize[kDTypes] = {4, 2, 2, 8};
  return kSize[static_cast<int32_t>(t)];
}

MHC_INLINE constexpr const char* name_of(DType t) {
  constexpr const char* kName[kDTypes] = {"f32", "bf16", "f16", "f64"};
  return is_valid(t) ? kName[static_cast<int32_t>(t)] : "an unknown type";
}

// Unit roundoff: half the distance from 1 to the next larger value.
MHC_INLINE constexpr double unit_roundoff(DType t) {
  constexpr double kU[kDTypes] = {0x1p-24, 0x1p-8, 0x1p-11, 0x1p-53};
  // bf16 keeps 8 significant bits, so 1 + 2^-7 follows 1 and u = 2^-8.
  return kU[static_cast<int32_t>(t)];
}

struct BF16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<BF16> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct DTypeOf<F16> {
  static constexpr DType value = DType::kF16;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};

MHC_INLINE constexpr float to_float(BF16 v) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(v.bits) << 16);
}

// Round to nearest even; a NaN keeps its sign and becomes quiet, so 7fffffff and 7f800001 stay NaN.
MHC_INLINE constexpr BF16 to_bf16(float f) {
  const uint32_t u = __builtin_bit_cast(uint32_t, f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((u >> 16) | 0x40u)};
  return {static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

MHC_INLINE constexpr float to_float(F16 v) {
  const uint32_t sign = (v.bits & 0x8000u) << 16;
  const uint32_t exponent = (v.bits >> 10) & 31u;
  const uint32_t mantissa = v.bits & 0x3ffu;
  if (exponent == 31) return __builtin_bit_cast(float, sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0)
    return __builtin_bit_cast(float, sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // exact, subnormals included
  return sign != 0 ? -magnitude : magnitude;
}

// Round to nearest even; beyond 65504 by half a step inf; NaN stays NaN; subnormal halves are kept.
MHC_INLINE constexpr F16 to_f16(float f) {
  const uint32_t u = __builtin_bit_cast(uint32_t, f);
  const uint32_t sign = (u >> 16) & 0x8000u;
  const uint32_t a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u | ((a >> 13) & 0x3ffu))};
  if (a >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)};
  if (a < 0x38800000u) {  // below 2^-14: the result counts units of 2^-24
    const uint32_t shift = 126 - (a >> 23);
    if (shift > 24) return {static_cast<uint16_t>(sign)};
    const uint32_t m = (a & 0x7fffffu) | 0x800000u;
    const uint32_t half = 1u << (shift - 1);
    const uint32_t kept = m >> shift;
    const uint32_t rest = m & ((1u << shift) - 1);
    const uint32_t up = (rest > half || (rest == half && (kept & 1u))) ? 1u : 0u;
    return {static_cast<uint16_t>(sign | (kept + up))};
  }
  const uint32_t rounded = a + 0xfffu + ((a >> 13) & 1u);
  return {static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

MHC_INLINE constexpr float to_float(float v) { return v; }
MHC_INLINE constexpr float to_float(double v) { return static_cast<float>(v); }

template <class T>
MHC_INLINE constexpr T from_float(float v) {
  if constexpr (DTypeOf<T>::value == DType::kBF16) {
    return to_bf16(v);
  } else if constexpr (DTypeOf<T>::value == DType::kF16) {
    return to_f16(v);
  } else {
    return static_cast<T>(v);
  }
}

// A double rounded once to T. Going through float would round twice, so float is rounded to odd
// first: its last bit records that something was lost, and the second rounding comes out right.
MHC_INLINE constexpr float round_to_odd(double v) {
  float f = static_cast<float>(v);
  if (!(v == v) || static_cast<double>(f) == v) return f;
  uint32_t u = __builtin_bit_cast(uint32_t, f);
  const double magnitude = v < 0 ? -v : v;
  const double got = f < 0 ? -static_cast<double>(f) : static_cast<double>(f);
  if (got > magnitude) --u;  // towards zero
  return __builtin_bit_cast(float, u | 1u);
}

template <class T>
MHC_INLINE constexpr T from_double(double v) {
  if constexpr (sizeof(T) == 2) {
    return from_float<T>(round_to_odd(v));
  } else {
    return static_cast<T>(v);
  }
}

MHC_INLINE constexpr double to_double(BF16 v) { return to_float(v); }
MHC_INLINE constexpr double to_double(F16 v) { return to_float(v); }
MHC_INLINE constexpr double to_double(float v) { return v; }
MHC_INLINE constexpr double to_double(double v) { return v; }

// Calls f with a value-initialised object of the C++ type that t names.
template <class F>
constexpr decltype(auto) visit_dtype(DType t, F&& f) {
  switch (t) {
    case DType::kBF16:
      return f(BF16{});
    case DType::kF16:
      return f(F16{});
    case DType::kF64:
      return f(double{});
    case DType::kF32:
      break;
  }
  return f(float{});
}

}  // namespace mhc
