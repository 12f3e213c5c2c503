#pragma once
// A number as a type, for sizes that the compiler should unroll by.

namespace mhc {

template <int kValue>
struct Count {
  static constexpr int value = kValue;
};

}  // namespace mhc
