#pragma once
// Between the driver (pre_backward.cc) and the ISA files: one call, prepared, and the table of
// kernels.

#include <cstdint>
#include <span>

#include "base/isa.h"
#include "kernels/common/gates.h"
#include "kernels/pre_backward/pre_backward.h"

namespace mhc {

// Features of one panel: a cache line of bf16, two 16-lane vectors of f32. Part of the layout of
// the accumulators.
inline constexpr int64_t kPanel = 32;

struct PreBackwardPlan {
  const PreBackwardArgs* args = nullptr;
  Dims dims;
  GateParams gates;
  bool need_d_phi = false;  // d_phi or d_norm_weight
  bool need_sums = false;   // d_alpha or d_bias
  bool stream = false;      // write d_x around the caches
  bool dot = false;  // gradient_precision bfloat16 on the dot unit: the pairs below are filled
  int64_t groups =
      1;  // of token blocks with accumulators of their own; block b belongs to b % groups
  int64_t wave_begin = 0;  // tokens of the wave; a multiple of kTokenBlock
  int64_t wave_end = 0;

  // What the first phase leaves to the second, rows of the wave's tokens.
  float* d_q = nullptr;    // [wave][m]
  float* norm = nullptr;   // [wave]
  float* h_pre = nullptr;  // [wave][n], rounded as the mix rounds
  float* h_res = nullptr;  // [wave][n][n], likewise
  float* sums = nullptr;   // [wave / lanes][m + kMaxGroups]: d_bias, then d_alpha

  // d_q as pairs of bf16: of two coefficients of a token, [wave][pairs()], and of two tokens, [wave
  // / 2][m].
  uint32_t* coefficient_pairs = nullptr;
  uint32_t* token_pairs = nullptr;

  // phi_eff as the second phase reads it, written once per call.
  float* phi = nullptr;           // [D / kPanel][n][m][kPanel], zeros past D
  uint32_t* phi_pairs = nullptr;  // [D / kPanel][n][parts][pairs()][kPanel], where dot
  float* accumulators = nullptr;  // [groups][D / kPanel][n][m][kPanel]

  MHC_INLINE int64_t pairs() const { return ceil_div(gates.coefficients, 2); }
  MHC_INLINE int64_t panels() const { return ceil_div(dims.embedding, kPanel); }
  MHC_INLINE int64_t panel_floats() const { return dims.streams * gates.coefficients * kPanel; }
  MHC_INLINE int64_t phi_parts() const {
    return args->spec.phi_precision == Precision::kBFloat16 ? 1 : 2;
  }
  MHC_INLINE int64_t panel_pairs() const { return dims.streams * phi_parts() * pairs() * kPanel; }
  MHC_INLINE float* accumulator(int64_t group, int64_t panel) const {
    return accumulators + (group * panels() + panel) * panel_floats();
  }
};

struct PanelTask {
  int64_t group;
  int64_t first;
  int64_t last;
  int64_t next_begin;
  int64_t next_end;
};

struct PreBackwardKernel {
  Isa isa;
  DType dtype;
  const char* name;
  int64_t lanes;
  bool has_dot;
  // Before all else: phi of one panel.
  void (*pack)(const PreBackwardPlan& plan, int64_t panel);
  // First phase, tokens [begin, end) of the wave; begin is a multiple of lanes. scratch:
  // gate_scratch_floats.
  void (*gates)(const PreBackwardPlan& plan, int64_t begin, int64_t end, float* scratch);
  // Second phase: d_x and d_phi_eff of the task's panels for the wave's blocks of its group. What
  // the first phase of tokens [next_begin, next_end) reads is brought near meanwhile. scratch:
  // panel_scratch_floats.
  void (*panels)(const PreBackwardPlan& plan, const PanelTask& task, float* scratch);
  // At the end: the groups' sums of one panel, in order, to d_phi and d_norm_weight.
  void (*reduce)(const PreBackwardPlan& plan, int64_t panel, float* scratch);
};
std::span<const PreBackwardKernel> pre_backward_kernels();  // best first

int64_t gate_scratch_floats(const GateLayout& layout, const Spec& spec, int64_t lanes);
int64_t panel_scratch_floats(const GateLayout& layout, bool dot, int64_t panels);

// Of each panel of a task: x of a block.
MHC_INLINE constexpr int64_t panel_own_floats(const GateLayout& layout) {
  return kPanel * layout.streams * kTokenBlock;
}

}  // namespace mhc
