#pragma once
// What the definitions of all operations share.
//
// A definition is a template on a number type over plain contiguous arrays. With double it judges
// every kernel and is itself the implementation for f64; long double and dual numbers judge the
// definition. The number type has + - * /, the functions of base/number.h, and rounded() below;
// Real{} is zero.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/dims.h"
#include "base/dtype.h"
#include "base/executor.h"
#include "base/number.h"
#include "base/tensor.h"
#include "manifold/spec.h"

namespace mhc {

// v rounded to the nearest value of type t, where the definition itself asks for a rounding. Its
// derivative counts as the identity's.
inline double rounded(double v, DType t) {
  return visit_dtype(t, [&](auto tag) { return to_double(from_double<decltype(tag)>(v)); });
}
inline long double rounded(long double v, DType t) { return rounded(static_cast<double>(v), t); }

namespace reference {

// A gate as the mix uses it: h_*_precision "activation" rounds it to x's type first.
template <class Real>
Real gate_in_mix(const Real& h, GatePrecision precision, DType activation) {
  return precision == GatePrecision::kActivation ? rounded(h, activation) : h;
}

// sum_k a[k] b[k]. Eight interleaved sums, so that the compiler may use vectors.
template <class Real>
Real dot(int64_t count, const Real* a, const Real* b) {
  constexpr int64_t kSums = 8;
  Real sum[kSums] = {};
  int64_t k = 0;
  for (; k + kSums <= count; k += kSums) {
    for (int64_t s = 0; s < kSums; ++s) sum[s] = sum[s] + a[k + s] * b[k + s];
  }
  for (; k < count; ++k) sum[k % kSums] = sum[k % kSums] + a[k] * b[k];
  for (int64_t s = 1; s < kSums; ++s) sum[0] = sum[0] + sum[s];
  return sum[0];
}

// y[k] += a x[k]
template <class Real>
void add_scaled(int64_t count, const Real& a, const Real* x, Real* y) {
  for (int64_t k = 0; k < count; ++k) y[k] = y[k] + a * x[k];
}

// Calls f(begin, count) for pieces of [0, total) short enough for a few rows of them to stay in
// cache.
template <class F>
void for_each_tile(int64_t total, const F& f) {
  for (int64_t begin = 0; begin < total; begin += kFeatureBlock) {
    f(begin, std::min(kFeatureBlock, total - begin));
  }
}

// Tensors of type double, long double or any other number made from a double.
// -------------------------

// Rows [begin, end) of the first index, of any type and strides, contiguous in out.
template <class Real>
void load_rows(const Tensor& tensor, int64_t begin, int64_t end, Real* out) {
  const int64_t rows = tensor.rank > 1 ? tensor.shape[1] : 1;
  const int64_t columns = tensor.rank > 2 ? tensor.shape[2] : 1;
  visit_dtype(tensor.dtype, [&](auto tag) {
    using T = decltype(tag);
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = 0; j < rows; ++j, out += columns) {
        const T* in = tensor.at<const T>(i, j);
        if (tensor.rank < 3 || tensor.stride[2] == 1) {
          for (int64_t k = 0; k < columns; ++k) out[k] = Real(to_double(in[k]));
        } else {
          for (int64_t k = 0; k < columns; ++k) out[k] = Real(to_double(in[k * tensor.stride[2]]));
        }
      }
    }
  });
}

template <class Real = double>
std::vector<Real> load_all(const Tensor& tensor) {
  std::vector<Real> out(static_cast<size_t>(tensor.elements()));
  if (tensor.elements() != 0) load_rows(tensor, 0, tensor.shape[0], out.data());
  return out;
}

// The reverse, with one rounding per element; accumulate adds to what is there before rounding.
inline void store_rows(const double* in, const Tensor& tensor, int64_t begin, int64_t end,
                       bool accumulate = false) {
  const int64_t rows = tensor.rank > 1 ? tensor.shape[1] : 1;
  const int64_t columns = tensor.rank > 2 ? tensor.shape[2] : 1;
  visit_dtype(tensor.dtype, [&](auto tag) {
    using T = decltype(tag);
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = 0; j < rows; ++j, in += columns) {
        T* out = tensor.at<T>(i, j);
        for (int64_t k = 0; k < columns; ++k) {
          T& element = out[k * tensor.stride[2]];
          element = from_double<T>(accumulate ? to_double(element) + in[k] : in[k]);
        }
      }
    }
  });
}

inline void store_all(const std::vector<double>& in, const Tensor& tensor,
                      bool accumulate = false) {
  if (tensor.elements() != 0) store_rows(in.data(), tensor, 0, tensor.shape[0], accumulate);
}

// Tokens that one task of a driver works on; its arrays of double hold no more.
inline constexpr int64_t kTaskTokens = 16;

// One array of double per worker, allocated before any task runs.
class WorkerScratch {
 public:
  WorkerScratch(const Executor& executor, int64_t size)
      : size_(static_cast<size_t>(size)), data_(static_cast<size_t>(executor.workers()) * size_) {}
  double* of(int32_t worker) { return data_.data() + static_cast<size_t>(worker) * size_; }

 private:
  size_t size_;
  std::vector<double> data_;
};

// Hands out consecutive pieces of an array.
class Pieces {
 public:
  explicit Pieces(double* data) : next_(data) {}
  double* take(int64_t size) {
    double* piece = next_;
    next_ += size;
    return piece;
  }
  // Null where the tensor that the piece would hold is absent.
  double* take_if(bool wanted, int64_t size) { return wanted ? take(size) : nullptr; }

 private:
  double* next_;
};

}  // namespace reference
}  // namespace mhc
