#pragma once
// Rows of a panel in the order that load_mixed brings its features in, and back. Compiled once per
// ISA.

#include "kernels/pre_backward/pre_backward_plan.h"

namespace mhc::MHC_ISA {

inline constexpr int64_t kPair = 2 * VF::kLanes;  // features of a register tile
static_assert(kPanel % kPair == 0);

template <class T>
inline constexpr bool kSplitsPairs = VF::kLanes > 1 && DTypeOf<T>::value == DType::kBF16;

// What store_mixed wants of all that enters a sum.
MHC_INLINE void clean_row(float* row, int64_t count) {
  for (int64_t k = 0; k < count; k += VF::kLanes) {
    const int64_t left = count - k < VF::kLanes ? count - k : VF::kLanes;
    store(row + k, clean_nan(load(row + k, left)), left);
  }
}

template <class T>
MHC_INLINE void mix_row(float* row) {
  if constexpr (!kSplitsPairs<T>) return;
  float copy[kPair];
  for (int64_t k = 0; k < kPanel; k += kPair, row += kPair) {
    for (int64_t l = 0; l < kPair; ++l) copy[l] = row[l];
    for (int64_t l = 0; l < VF::kLanes; ++l) {
      row[l] = copy[2 * l];
      row[VF::kLanes + l] = copy[2 * l + 1];
    }
  }
}

template <class T>
MHC_INLINE void unmix_row(float* row) {
  if constexpr (!kSplitsPairs<T>) return;
  float copy[kPair];
  for (int64_t k = 0; k < kPanel; k += kPair, row += kPair) {
    for (int64_t l = 0; l < kPair; ++l) copy[l] = row[l];
    for (int64_t l = 0; l < VF::kLanes; ++l) {
      row[2 * l] = copy[l];
      row[2 * l + 1] = copy[VF::kLanes + l];
    }
  }
}

}  // namespace mhc::MHC_ISA
