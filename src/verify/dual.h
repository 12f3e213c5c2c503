#pragma once
// A number together with its derivative along one direction: a definition that runs on duals
// differentiates itself (forward mode), which is what its hand-derived backward is held against.

#include <cstdint>

#include "base/dtype.h"
#include "base/number.h"
#include "kernels/common/reference.h"

namespace mhc::verify {

template <class Base>
struct Dual {
  Base v{};  // value
  Base d{};  // derivative
};

template <class Base>
Dual<Base> operator+(const Dual<Base>& a, const Dual<Base>& b) {
  return {a.v + b.v, a.d + b.d};
}
template <class Base>
Dual<Base> operator-(const Dual<Base>& a, const Dual<Base>& b) {
  return {a.v - b.v, a.d - b.d};
}
template <class Base>
Dual<Base> operator*(const Dual<Base>& a, const Dual<Base>& b) {
  return {a.v * b.v, a.d * b.v + a.v * b.d};
}
template <class Base>
Dual<Base> operator/(const Dual<Base>& a, const Dual<Base>& b) {
  const Base q = a.v / b.v;
  return {q, (a.d - q * b.d) / b.v};
}

template <class Base>
Dual<Base> constant(const Dual<Base>&, double c) {
  return {static_cast<Base>(c), Base{}};
}
template <class Base>
Dual<Base> exp_of(const Dual<Base>& x) {
  const Base e = mhc::exp_of(x.v);
  return {e, e * x.d};
}
template <class Base>
Dual<Base> sqrt_of(const Dual<Base>& x) {
  const Base root = mhc::sqrt_of(x.v);
  return {root, x.d / (root + root)};
}
template <class Base>
Dual<Base> abs_of(const Dual<Base>& x) {
  return x.v < Base{} ? Dual<Base>{-x.v, -x.d} : x;
}
template <class Base>
Dual<Base> select_greater(const Dual<Base>& a, const Dual<Base>& b, const Dual<Base>& x,
                          const Dual<Base>& y) {
  return a.v > b.v ? x : y;
}
template <class Base>
Dual<Base> max_of(const Dual<Base>& a, const Dual<Base>& b) {
  return b.v > a.v || b.v != b.v ? b : a;
}
// A rounding counts as the identity.
template <class Base>
Dual<Base> rounded(const Dual<Base>& x, DType t) {
  return {mhc::rounded(x.v, t), x.d};
}

}  // namespace mhc::verify
