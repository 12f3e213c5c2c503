#pragma once
// A non-owning, typed, strided tensor of up to three dimensions: how every argument travels.

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/macros.h"

namespace mhc {

// Strides count elements. rank 0 means "absent"; data may be null when the tensor has no elements.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::kF32;
  int32_t rank = 0;
  int64_t shape[3] = {0, 0, 0};
  int64_t stride[3] = {0, 0, 0};

  MHC_INLINE constexpr bool present() const { return rank != 0; }

  MHC_INLINE constexpr int64_t elements() const {
    int64_t count = rank == 0 ? 0 : 1;
    for (int32_t i = 0; i < rank; ++i) count *= shape[i];
    return count;
  }

  MHC_INLINE constexpr bool contiguous() const {
    int64_t expected = 1;
    for (int32_t i = rank - 1; i >= 0; --i) {
      if (shape[i] != 1 && stride[i] != expected) return false;
      expected *= shape[i];
    }
    return true;
  }

  // Address of element (i, j, k); indices beyond the rank must be 0.
  template <class T>
  MHC_INLINE T* at(int64_t i, int64_t j = 0, int64_t k = 0) const {
    return static_cast<T*>(data) + i * stride[0] + j * stride[1] + k * stride[2];
  }

  // Row i of an optional tensor.
  template <class T>
  MHC_INLINE T* at_or_null(int64_t i) const {
    return present() ? at<T>(i) : nullptr;
  }

  double load(int64_t i, int64_t j = 0, int64_t k = 0) const {
    return visit_dtype(dtype, [&](auto tag) { return to_double(*at<decltype(tag)>(i, j, k)); });
  }

  // Rounds once, to the nearest value of the tensor's type.
  void store(double value, int64_t i, int64_t j = 0, int64_t k = 0) const {
    visit_dtype(dtype, [&](auto tag) {
      using T = decltype(tag);
      *at<T>(i, j, k) = from_double<T>(value);
    });
  }
};

// A contiguous tensor over caller memory. Unused extents are 0.
MHC_INLINE constexpr Tensor make_tensor(void* data, DType dtype, int32_t rank, int64_t a,
                                        int64_t b = 0, int64_t c = 0) {
  Tensor t{data, dtype, rank, {a, b, c}, {0, 0, 0}};
  int64_t stride = 1;
  for (int32_t i = rank - 1; i >= 0; --i) {
    t.stride[i] = stride;
    stride *= t.shape[i];
  }
  return t;
}

}  // namespace mhc
