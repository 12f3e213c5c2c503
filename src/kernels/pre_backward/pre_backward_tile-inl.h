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

// One panel of a task: where it lies, its phi and the worker's memory.
struct PanelScratch {
  int64_t first;              // feature
  int64_t count;              // features that exist, <= kPanel
  const float* phi;           // [n][m][kPanel], zeros past count
  const uint32_t* phi_pairs;  // [n][parts][pairs][kPanel], where plan.dot
  int64_t phi_parts;
  float* sums;        // [n][kTileRows][kPanel], shared by the task's panels
  uint32_t* x_pairs;  // [kTokenBlock / 2][kPanel], likewise; where plan.dot
  float* x;           // [n][kTokenBlock][kPanel]
  MHC_INLINE PanelScratch(const PreBackwardPlan& plan, int64_t panel, int64_t first_panel,
                          float* scratch)
      : first(panel * kPanel),
        count(plan.dims.embedding - first < kPanel ? plan.dims.embedding - first : kPanel),
        phi(plan.phi + panel * plan.panel_floats()),
        phi_pairs(plan.phi_pairs + panel * plan.panel_pairs()),
        phi_parts(plan.phi_parts()),
        sums(scratch) {
    const int64_t n = plan.dims.streams;
    x_pairs = reinterpret_cast<uint32_t*>(sums + n * kTileRows * kPanel);
    float* own = sums + n * kTileRows * kPanel + (plan.dot ? kTokenBlock / 2 * kPanel : 0);
    x = own + (panel - first_panel) * panel_own_floats(plan.gates.layout);
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

}  // namespace mhc::MHC_ISA
