#pragma once
// One panel of the second phase: the worker's memory, and lines in and out of it. Compiled once per
// ISA.

#include "kernels/common/count.h"
#include "kernels/common/phi-inl.h"
#include "kernels/pre_backward/pre_backward_dot-inl.h"
#include "kernels/pre_backward/pre_backward_order-inl.h"
#include "kernels/pre_backward/pre_backward_plan.h"

namespace mhc::MHC_ISA {

inline constexpr int kTileRows = VF::kLanes >= 16 ? 8 : 4;  // divides kTokenBlock
inline constexpr int kTileColumns = VF::kLanes >= 16 ? 12 : 6;

// One panel of a task: where it lies, and the worker's memory.
struct PanelScratch {
  int64_t first;        // feature
  int64_t count;        // features that exist, <= kPanel
  float* sums;          // [n][kTileRows][kPanel], shared by the task's panels
  uint32_t* x_pairs;    // [kTokenBlock / 2][kPanel], likewise; where plan.dot
  float* phi;           // [n][m][kPanel], zeros past count
  float* x;             // [n][kTokenBlock][kPanel]
  uint32_t* phi_pairs;  // [n][parts][pairs][kPanel], where plan.dot
  int64_t phi_parts;
  MHC_INLINE PanelScratch(const PreBackwardPlan& plan, int64_t panel, int64_t first_panel,
                          float* scratch) {
    const int64_t n = plan.dims.streams;
    first = panel * kPanel;
    count = plan.dims.embedding - first < kPanel ? plan.dims.embedding - first : kPanel;
    sums = scratch;
    x_pairs = reinterpret_cast<uint32_t*>(sums + n * kTileRows * kPanel);
    float* shared_end = sums + n * kTileRows * kPanel + (plan.dot ? kTokenBlock / 2 * kPanel : 0);
    phi = shared_end + (panel - first_panel) * panel_own_floats(plan.gates.layout, plan.dot);
    x = phi + plan.panel_floats();
    phi_pairs = reinterpret_cast<uint32_t*>(x + n * kTokenBlock * kPanel);
    phi_parts = plan.args->spec.phi_precision == Precision::kBFloat16 ? 1 : 2;
  }
};

// kPair elements at p + offset of a panel's `count`. Features of a whole panel stand in the order of
// load_mixed everywhere between load and store: in x, phi and the accumulators; those of the last,
// smaller one as they are, with zeros past count. kWhole: the caller knows that it is whole.
template <bool kWhole, class T>
MHC_INLINE void load_two(const T* p, int64_t offset, int64_t count, VF* a, VF* b) {
  constexpr int64_t kL = VF::kLanes;
  const int64_t left = count - offset;
  if (kWhole || count == kPanel) {
    load_mixed(p + offset, a, b);
  } else {
    *a = left <= 0 ? zero() : load(p + offset, left < kL ? left : kL);
    *b = left <= kL ? zero() : load(p + offset + kL, left - kL < kL ? left - kL : kL);
  }
}

template <bool kWhole, class T>
MHC_INLINE void store_two(T* p, int64_t offset, int64_t count, bool stream_it, VF a, VF b) {
  constexpr int64_t kL = VF::kLanes;
  const int64_t left = count - offset;
  if (kWhole || count == kPanel) {
    if (stream_it) {
      stream_mixed(p + offset, a, b);
    } else {
      store_mixed(p + offset, a, b);
    }
    return;
  }
  if (left > 0) store(p + offset, a, left < kL ? left : kL);
  if (left > kL) store(p + offset + kL, b, left - kL < kL ? left - kL : kL);
}

// phi_eff of the panel, rounded as forward rounded it.
template <class T>
MHC_INLINE void fold_panel(const PreBackwardPlan& plan, const PanelScratch& s) {
  const Params& params = plan.args->params;
  const int64_t n = plan.dims.streams;
  const int64_t m = plan.gates.coefficients;
  const bool round = plan.args->spec.phi_precision == Precision::kBFloat16;
  const bool folded = params.norm_weight.present();
  for (int64_t i = 0; i < n; ++i) {
    float weight[kPanel];
    if (folded) load_row(params.norm_weight, i * plan.dims.embedding + s.first, s.count, weight);
    for (int64_t c = 0; c < m; ++c) {
      float* row = s.phi + (i * m + c) * kPanel;
      for (int64_t k = s.count; k < kPanel; ++k) row[k] = 0.0f;
      load_row(params.phi, (c * n + i) * plan.dims.embedding + s.first, s.count, row);
      if (folded || round) fold_row(folded ? weight : nullptr, round, s.count, row);
      clean_row(row, s.count);
      if (s.count == kPanel) mix_row<T>(row);
    }
#if MHC_ISA_HAS_DOT
    if (plan.dot) {
      const int64_t size = s.phi_parts * plan.pairs() * kPanel;
      pair_phi(s.phi + i * m * kPanel, m, plan.pairs(), s.phi_parts, s.phi_pairs + i * size);
    }
#endif
  }
}

}  // namespace mhc::MHC_ISA
