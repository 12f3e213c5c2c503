#pragma once
// What is right and how far a kernel may be from it; and the comparison of a result with that.

#include <cstdint>
#include <string>
#include <vector>

#include "base/tensor.h"

namespace mhc::verify {

// One tensor: exact values (up to double), and for each the largest error that the kernel's
// arithmetic allows before its result is rounded to the output's type.
struct Expected {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<double> value;
  std::vector<double> bound;

  Expected() = default;
  Expected(std::string tensor_name, std::vector<int64_t> tensor_shape);
  int64_t elements() const { return static_cast<int64_t>(value.size()); }
};

// How a result compares; shares add up over slices of one tensor with `merge`.
struct Comparison {
  std::string name;
  int64_t elements = 0;
  int64_t wrong = 0;         // elements outside their bound
  std::string first_wrong;   // name, shape, index, got, want, bound
  double largest_error = 0;  // |got - want|
  double largest_share = 0;  // of error / (bound + rounding of the output)
  double largest_value = 0;  // |want|
  double dot = 0, got_norm = 0, want_norm = 0;
  double signed_shares = 0;  // sum of (got - want) / allowed: near zero unless something truncates

  bool ok() const { return wrong == 0; }
  double cosine() const;
  double mean_signed_share() const {
    return elements == 0 ? 0 : signed_shares / static_cast<double>(elements);
  }
  void merge(const Comparison& other);
};

// got is right where it lies between the roundings of value - bound and value + bound to its type,
// which is what a kernel must give if it knows the value to within the bound and rounds once. Where
// value is not finite, got must not be finite; where value is a NaN, got must be one.
Comparison compare(const Tensor& got, const Expected& want);

}  // namespace mhc::verify
