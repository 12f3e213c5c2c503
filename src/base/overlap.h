#pragma once
// Which bytes tensors cover, and whether two of them share any. For tensors whose sizes fit 63 bits
// and whose strides are not negative.

#include <cstdint>

#include "base/tensor.h"

namespace mhc {

// From the first byte of the first element to the last byte of the last; 0 when there are none.
int64_t span_bytes(const Tensor& t);

// No two indices name the same element. Refuses exotic strides whose dimensions interleave without
// meeting.
bool elements_are_distinct(const Tensor& t);

// Same address, type, shape, and strides where they matter.
bool same_elements(const Tensor& a, const Tensor& b);

// Both consist of blocks at one common distance that fit into each other's gaps, as slices of one
// larger tensor do. False when that is not plain to see.
bool rows_are_disjoint(const Tensor& a, const Tensor& b);

}  // namespace mhc
