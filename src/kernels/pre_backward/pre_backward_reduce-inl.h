// End of pre_backward: the groups' sums of one panel, added in order, become d_phi and
// d_norm_weight.
//   d_phi = d_phi_eff * norm_weight;   d_norm_weight = sum_c d_phi_eff * phi      (unrounded
//   factors)

#include "kernels/common/phi-inl.h"
#include "kernels/pre_backward/pre_backward_order-inl.h"

namespace mhc::MHC_ISA {

// row[k] written to, or added to, elements [offset, offset + count) of a contiguous gradient.
MHC_INLINE void put_row(const Tensor& gradient, bool accumulate, int64_t offset, int64_t count,
                        const float* row) {
  const auto put = [&](auto* p) {
    p += offset;
    for (int64_t k = 0; k < count; k += VF::kLanes) {
      const int64_t left = count - k < VF::kLanes ? count - k : VF::kLanes;
      VF v = load(row + k, left);
      if (accumulate) v = v + load(p + k, left);
      store(p + k, v, left);
    }
  };
  if (gradient.dtype == DType::kBF16) {
    put(static_cast<BF16*>(gradient.data));
  } else {
    put(static_cast<float*>(gradient.data));
  }
}

template <class T>
void backward_reduce(const PreBackwardPlan& plan, int64_t panel, float* scratch) {
  const PreBackwardArgs& args = *plan.args;
  const int64_t n = plan.dims.streams;
  const int64_t m = plan.gates.coefficients;
  const int64_t embedding = plan.dims.embedding;
  const int64_t first = panel * kPanel;
  const int64_t count = embedding - first < kPanel ? embedding - first : kPanel;
  const bool folded = args.params.norm_weight.present();
  float* weight = scratch;
  float* phi = weight + kPanel;
  float* sum = phi + kPanel;
  float* d_weight = sum + kPanel;
  for (int64_t i = 0; i < n; ++i) {
    if (folded) load_row(args.params.norm_weight, i * embedding + first, count, weight);
    for (int64_t k = 0; k < kPanel; ++k) d_weight[k] = 0.0f;
    for (int64_t c = 0; c < m; ++c) {
      const int64_t offset = (c * n + i) * embedding + first;
      for (int64_t k = 0; k < kPanel; ++k) sum[k] = 0.0f;
      for (int64_t group = 0; group < plan.groups; ++group) {
        const float* row = plan.accumulator(group, panel) + (i * m + c) * kPanel;
        for (int64_t k = 0; k < count; ++k) sum[k] += row[k];
      }
      if (count == kPanel) unmix_row<T>(sum);
      if (args.d_norm_weight.present()) {
        load_row(args.params.phi, offset, count, phi);
        for (int64_t k = 0; k < count; ++k) d_weight[k] += sum[k] * phi[k];
      }
      if (args.d_phi.present()) {
        if (folded) {
          for (int64_t k = 0; k < count; ++k) sum[k] *= weight[k];
        }
        put_row(args.d_phi, args.accumulate, offset, count, sum);
      }
    }
    if (args.d_norm_weight.present()) {
      put_row(args.d_norm_weight, args.accumulate, i * embedding + first, count, d_weight);
    }
  }
}

}  // namespace mhc::MHC_ISA
