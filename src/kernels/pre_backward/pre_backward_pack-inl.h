#pragma once
// phi_eff of one panel as the second phase reads it: rounded as forward rounded it, in the order of
// load_mixed, its coefficients' rows adjacent. Compiled once per ISA.

#include "kernels/common/phi-inl.h"
#include "kernels/pre_backward/pre_backward_dot-inl.h"
#include "kernels/pre_backward/pre_backward_order-inl.h"

namespace mhc::MHC_ISA {

template <class T>
void backward_pack(const PreBackwardPlan& plan, int64_t panel) {
  const Params& params = plan.args->params;
  const int64_t n = plan.dims.streams;
  const int64_t m = plan.gates.coefficients;
  const int64_t first = panel * kPanel;
  const int64_t left = plan.dims.embedding - first;
  const int64_t count = left < kPanel ? left : kPanel;
  const bool round = plan.args->spec.phi_precision == Precision::kBFloat16;
  const bool folded = params.norm_weight.present();
  float* phi = plan.phi + panel * plan.panel_floats();
  for (int64_t i = 0; i < n; ++i) {
    float weight[kPanel];
    if (folded) load_row(params.norm_weight, i * plan.dims.embedding + first, count, weight);
    for (int64_t c = 0; c < m; ++c) {
      float* row = phi + (i * m + c) * kPanel;
      for (int64_t k = count; k < kPanel; ++k) row[k] = 0.0f;
      load_row(params.phi, (c * n + i) * plan.dims.embedding + first, count, row);
      if (folded || round) fold_row(folded ? weight : nullptr, round, count, row);
      clean_row(row, count);
      if (count == kPanel) mix_row<T>(row);
    }
#if MHC_ISA_HAS_DOT
    if (plan.dot) {
      const int64_t size = plan.phi_parts() * plan.pairs() * kPanel;
      pair_phi(phi + i * m * kPanel, m, plan.pairs(), plan.phi_parts(),
               plan.phi_pairs + panel * plan.panel_pairs() + i * size);
    }
#endif
  }
}

}  // namespace mhc::MHC_ISA
