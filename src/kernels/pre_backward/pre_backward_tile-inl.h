#pragma once
// One panel of the second phase: the worker's memory, and lines in and out of it. Compiled once per
// ISA.

#include "kernels/common/count.h"
#include "kernels/common/phi-inl.h"
#include "kernels/pre_backward/pre_backward_dot-inl.h"
#include "kernels/pre_backward/pre_backward_plan.h"

namespace mhc::MHC_ISA {

inline constexpr int kTileRows = VF::kLanes >= 16 ? 8 : 4;  // divides kTokenBlock
inline constexpr int kTileColumns = VF::kLanes >= 16 ? 12 : 6;
inline constexpr int64_t kPair =
    2 * VF::kLanes;  // features of a register tile; kPanel is a multiple
inline constexpr int64_t kAhead = 2 * kTileRows;  // tokens: two tiles' time covers a memory access

// One panel of a task: where it lies, and the worker's memory.
struct PanelScratch {
  int64_t first;        // feature
  int64_t count;        // features that exist, <= kPanel
  float* g;             // [kTileRows][n][kPanel], shared by the task's panels
  float* du;            // [kTileRows][kPanel], likewise
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
    g = scratch;
    du = g + kTileRows * n * kPanel;
    x_pairs = reinterpret_cast<uint32_t*>(du + kTileRows * kPanel);
    float* shared_end = du + kTileRows * kPanel + (plan.dot ? kTokenBlock / 2 * kPanel : 0);
    phi = shared_end + (panel - first_panel) * panel_own_floats(plan.gates.layout, plan.dot);
    x = phi + plan.panel_floats();
    phi_pairs = reinterpret_cast<uint32_t*>(x + n * kTokenBlock * kPanel);
    phi_parts = plan.args->spec.phi_precision == Precision::kBFloat16 ? 1 : 2;
  }
};

// kPair elements at p + offset, those at or past count being zero. kWhole: the caller knows that
// all exist.
template <bool kWhole, class T>
MHC_INLINE void load_two(const T* p, int64_t offset, int64_t count, VF* lo, VF* hi) {
  constexpr int64_t kL = VF::kLanes;
  const int64_t left = count - offset;
  if (kWhole || left >= kPair) {
    *lo = load(p + offset);
    *hi = load(p + offset + kL);
  } else {
    *lo = left <= 0 ? zero() : load(p + offset, left < kL ? left : kL);
    *hi = left <= kL ? zero() : load(p + offset + kL, left - kL);
  }
}

template <bool kWhole, class T>
MHC_INLINE void store_two(T* p, int64_t offset, int64_t count, bool stream_it, VF lo, VF hi) {
  constexpr int64_t kL = VF::kLanes;
  const int64_t left = count - offset;
  if (kWhole || left >= kPair) {
    if (stream_it) {
      stream(p + offset, lo, hi);
    } else {
      store(p + offset, lo, hi);
    }
    return;
  }
  if (left > 0) store(p + offset, lo, left < kL ? left : kL);
  if (left > kL) store(p + offset + kL, hi, left - kL);
}

// phi_eff of the panel, rounded as forward rounded it.
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
    }
#if MHC_ISA_HAS_DOT
    if (plan.dot) {
      const int64_t size = s.phi_parts * plan.pairs() * kPanel;
      pair_phi(s.phi + i * m * kPanel, m, plan.pairs(), s.phi_parts, s.phi_pairs + i * size);
    }
#endif
  }
}

// Lines of kRows tokens, `stride` elements apart, widened to rows `out_stride` floats apart, zeros
// past count.
template <bool kWhole, int kRows, class T>
MHC_INLINE void widen_lines(const T* p, int64_t stride, int64_t count, float* out,
                            int64_t out_stride) {
  MHC_UNROLL for (int r = 0; r < kRows; ++r, p += stride, out += out_stride) {
    for (int64_t k = 0; k < kPanel; k += kPair) {
      VF lo, hi;
      load_two<kWhole>(p, k, count, &lo, &hi);
      store(out + k, lo);
      store(out + k + VF::kLanes, hi);
    }
  }
}

}  // namespace mhc::MHC_ISA
