#pragma once
// Everything that the four calls of one site read and write, forward and backward.

#include "kernels/post/post.h"
#include "kernels/post_backward/post_backward.h"
#include "kernels/pre/pre.h"
#include "kernels/pre_backward/pre_backward.h"
#include "verify/buffer.h"

namespace mhc::verify {

// Normal numbers; the streams of a tensor of rank 3 differ in scale.
void fill(const Tensor& t, uint64_t seed, double scale, double mean);

struct SiteMemory {
  SiteMemory(const Spec& spec, const Dims& dims, DType dtype, DType param_dtype,
             bool with_norm_weight, uint64_t seed);

  Params params() const { return {phi, alpha, bias, norm_weight}; }
  // Without workspaces.
  PreArgs pre_args(const Spec& spec) const;
  PostArgs post_args(const Spec& spec) const;
  PostBackwardArgs post_backward_args(const Spec& spec) const;  // lazy
  PreBackwardArgs pre_backward_args(const Spec& spec) const;    // lazy, all gradients

  GateLayout layout;
  Buffer x, layer_output, d_x_next, d_layer_input;  // given
  Buffer phi, alpha, bias, norm_weight;
  Buffer layer_input, z, inv_rms, h_post, h_res, x_next, d_layer_output, d_h_post, d_h_res, d_x;
  Buffer d_phi, d_alpha, d_bias, d_norm_weight;
};

}  // namespace mhc::verify
