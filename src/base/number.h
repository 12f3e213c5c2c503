#pragma once
// What a manifold's formulas ask of a number type, for plain floating-point types. The SIMD vectors
// of base/simd, dual numbers and the error-tracking type bring functions of the same names in their
// own namespaces, found by argument.

#include <cmath>
#include <cstdint>

#include "base/macros.h"

namespace mhc {

// A constant in the type of `like`.
MHC_INLINE double constant(double, double c) { return c; }
MHC_INLINE long double constant(long double, double c) { return static_cast<long double>(c); }

MHC_INLINE double exp_of(double x) { return std::exp(x); }
MHC_INLINE long double exp_of(long double x) { return std::exp(x); }
MHC_INLINE double sqrt_of(double x) { return std::sqrt(x); }
MHC_INLINE long double sqrt_of(long double x) { return std::sqrt(x); }
MHC_INLINE double abs_of(double x) { return std::fabs(x); }
MHC_INLINE long double abs_of(long double x) { return std::fabs(x); }

// a > b ? x : y, lane by lane; false where either is NaN.
MHC_INLINE double select_greater(double a, double b, double x, double y) { return a > b ? x : y; }
MHC_INLINE long double select_greater(long double a, long double b, long double x, long double y) {
  return a > b ? x : y;
}

// The larger one, or NaN where either is NaN.
MHC_INLINE double max_of(double a, double b) { return b > a || b != b ? b : a; }
MHC_INLINE long double max_of(long double a, long double b) { return b > a || b != b ? b : a; }

}  // namespace mhc
