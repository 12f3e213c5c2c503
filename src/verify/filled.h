#pragma once
// Tensors under test that begin with given or random values.

#include <cstdint>
#include <utility>
#include <vector>

#include "verify/buffer.h"
#include "verify/random.h"

namespace mhc::verify {

// Values in row-major order, each rounded to the type.
inline Buffer filled(DType dtype, std::vector<int64_t> shape, const std::vector<double>& values,
                     Placement placement = Placement::kAligned, Padding padding = {}) {
  Buffer buffer(dtype, std::move(shape), placement, padding);
  size_t next = 0;
  for_each_index(buffer.tensor(), [&](int64_t i, int64_t j, int64_t k) {
    buffer.tensor().store(values.at(next++), i, j, k);
  });
  return buffer;
}

inline Buffer random_filled(DType dtype, std::vector<int64_t> shape, Random* random,
                            double scale = 1.0, double offset = 0.0,
                            Placement placement = Placement::kAligned, Padding padding = {}) {
  Buffer buffer(dtype, std::move(shape), placement, padding);
  for_each_index(buffer.tensor(), [&](int64_t i, int64_t j, int64_t k) {
    buffer.tensor().store(offset + scale * random->normal(), i, j, k);
  });
  return buffer;
}

}  // namespace mhc::verify
