#pragma once
// Cutting a caller's workspace into aligned pieces. The same code counts the bytes (base null) and
// hands them out.

#include <cstddef>
#include <cstdint>

#include "base/dims.h"

namespace mhc {

class ScratchCutter {
 public:
  explicit ScratchCutter(void* base)
      : start_((reinterpret_cast<uintptr_t>(base) + kAlignment - 1) & ~(kAlignment - 1)),
        address_(start_) {}

  template <class T>
  T* take(int64_t count) {
    T* piece = reinterpret_cast<T*>(address_);
    address_ +=
        static_cast<uintptr_t>(round_up(count * static_cast<int64_t>(sizeof(T)), kAlignment));
    return piece;
  }

  // Enough wherever the caller's memory begins.
  size_t bytes() const { return address_ - start_ + kAlignment; }

 private:
  static constexpr uintptr_t kAlignment = 64;
  uintptr_t start_;
  uintptr_t address_;
};

}  // namespace mhc
