#pragma once
// Memory of tensors under test: guarded on both sides, poisoned, placed and strided as a test
// wishes.
//
// Every byte starts as 0xff, which is a NaN in all types. What lies between and around the elements
// has to keep that value, and a kernel that reads it gets NaN into its results.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/tensor.h"

namespace mhc::verify {

enum class Placement : int32_t {
  kAligned = 0,  // the first element on a 64-byte boundary
  kShifted = 1,  // one element behind it
  kPageEnd = 2,  // the last element ends where an unreadable page begins
};

// Elements left free behind each row (innermost dimension) and behind each plane (outermost).
struct Padding {
  int64_t row = 0;
  int64_t plane = 0;
};

class Buffer {
 public:
  Buffer() = default;
  Buffer(DType dtype, std::vector<int64_t> shape, Placement placement = Placement::kAligned,
         Padding padding = {});
  ~Buffer();
  Buffer(Buffer&& other) noexcept { *this = static_cast<Buffer&&>(other); }
  Buffer& operator=(Buffer&& other) noexcept;

  const Tensor& tensor() const { return tensor_; }
  operator const Tensor&() const { return tensor_; }

  void poison();  // every byte back to 0xff
  // Empty when all bytes that belong to no element are as they were.
  std::string damage() const;
  // Whether the elements' bits are the same; shapes must agree.
  bool same_bits(const Buffer& other) const;
  void copy_from(const Buffer& other);  // elements, converted

 private:
  Tensor tensor_;
  uint8_t* mapping_ = nullptr;
  size_t mapped_ = 0;  // bytes, the unreadable page included
  size_t begin_ = 0;   // of the first element in the mapping
};

// The elements in row-major order as doubles, whatever type and strides.
std::vector<double> widen(const Tensor& t);

// Calls f(i, j, k) for every index.
template <class F>
void for_each_index(const Tensor& t, const F& f) {
  const int64_t b = t.rank > 1 ? t.shape[1] : 1, c = t.rank > 2 ? t.shape[2] : 1;
  for (int64_t i = 0; i < (t.rank > 0 ? t.shape[0] : 0); ++i) {
    for (int64_t j = 0; j < b; ++j) {
      for (int64_t k = 0; k < c; ++k) f(i, j, k);
    }
  }
}

// Tokens [begin, begin + count) of a tensor whose first dimension counts them; absent stays absent.
Tensor tokens_of(const Tensor& t, int64_t begin, int64_t count);

}  // namespace mhc::verify
