#pragma once
// What the per-token arithmetic between projection and mix needs, gathered once per call.

#include <cstdint>

#include "kernels/common/args.h"

namespace mhc {

struct GateParams {
  GateLayout layout;
  int64_t coefficients = 0;  // m
  int32_t manifold = 0;
  ManifoldOptions options;
  bool transposed = false;  // matrix_order output_input: h_res[i][j] = M[j][i]
  bool norm_outside = false;
  bool round_gradient = false;  // gradient_precision bfloat16
  float norm_eps = 0;
  float pre_eps = 0;
  float post_mult = 0;
  float inv_k = 0;               // 1 / (n * embedding_total)
  const float* alpha = nullptr;  // one per group
  const float* bias = nullptr;   // m
};

// alpha and bias are read into `storage` (kMaxGroups + m floats) as f32.
inline constexpr int64_t kMaxGroups = 3;
GateParams make_gate_params(const Spec& spec, GateKind kind, int64_t embedding_total,
                            const Tensor& alpha, const Tensor& bias, float* storage);

// The gradient of a parameter that no token used: zeros, or what was there.
void put_no_gradient(const Tensor& gradient, bool accumulate);

// Writes the totals of d_bias or d_alpha, or adds them to what is there; an absent gradient is
// skipped.
void put_sums(const Tensor& gradient, bool accumulate, int64_t count, const double* totals);

// Scratch of the lane-parallel functions of gates-inl.h, in vectors: z and its cotangent (2 m), M
// and its cotangent (2 n^2), the logits' (m) and the manifold's own.
int64_t gate_scratch_vectors(const GateLayout& layout, int32_t manifold,
                             const ManifoldOptions& options);

// Rows of one block of at most kLanes tokens, token-major. Any pointer may be null.
struct GateRows {
  float* z;        // [count][m]
  float* inv_rms;  // [count]
  float* h_pre;    // [count][n]
  float* h_post;   // [count][n]
  float* h_res;    // [count][n * n]
};

struct GateCotangents {
  const float* z;            // [count][m], required
  const float* inv_rms;      // [count], required
  const float* sum_squares;  // [count], required when norm_outside
  const float* d_h_pre;      // [count][n] or null
  const float* d_h_post;     // [count][n] or null
  const float* d_h_res;      // [count][n * n] or null
};

struct GateGradients {
  float* d_q;      // [count][m]
  float* norm;     // [count]  what d_x takes of x: d_x -= norm * x
  float* h_pre;    // [count][n]      recomputed, or null
  float* h_res;    // [count][n * n]  recomputed, or null
  float* d_bias;   // [m]: sum over the block's tokens of d_logit; with d_alpha or null
  float* d_alpha;  // [groups]: sum of d_logit z
};

}  // namespace mhc
