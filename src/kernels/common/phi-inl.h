#pragma once
// phi_eff = phi * norm_weight in f32, rows of one parameter at a time, for packing and for the
// backward.

#include "base/dtype.h"
#include "base/tensor.h"

namespace mhc::MHC_ISA {

// row[k] = float(parameter[offset + k]), k < count; parameter contiguous f32 or bf16.
MHC_INLINE void load_row(const Tensor& parameter, int64_t offset, int64_t count, float* row) {
  constexpr int64_t kLanes = VF::kLanes;
  const auto copy = [&](const auto* p) {
    int64_t k = 0;
    for (; k + kLanes <= count; k += kLanes) store(row + k, load(p + k));
    if (k < count) store(row + k, load(p + k, count - k), count - k);
  };
  if (parameter.dtype == DType::kBF16) {
    copy(static_cast<const BF16*>(parameter.data) + offset);
  } else {
    copy(static_cast<const float*>(parameter.data) + offset);
  }
}

// row[k] *= weight[k], then rounded to bf16 where asked: folding in f32 and rounding once.
MHC_INLINE void fold_row(const float* weight, bool round, int64_t count, float* row) {
  constexpr int64_t kLanes = VF::kLanes;
  for (int64_t k = 0; k < count; k += kLanes) {
    const int64_t left = count - k < kLanes ? count - k : kLanes;
    VF v = load(row + k, left);
    if (weight != nullptr) v = v * load(weight + k, left);
    if (round) v = round_bf16(v);
    store(row + k, v, left);
  }
}

}  // namespace mhc::MHC_ISA
