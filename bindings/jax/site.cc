// One site: pre, post and their backwards. Shapes: include/mhc/operations.h.

#include "call.h"

namespace mhc_jax {
namespace {

ffi::Error run_pre(Call& call) {
  mhc_pre_args a{};
  a.size = sizeof(a);
  a.spec = call.spec();
  a.x = call.input(2);
  a.params = call.params();
  a.layer_input = call.output(1);
  a.z = call.output(1);
  a.inv_rms = call.output(0);
  a.h_pre = call.output(1);
  a.h_post = call.output(1);
  a.h_res = call.output(2);
  return call.run(mhc_pre, a, Call::sizes(MHC_OP_PRE, a.x));
}

ffi::Error run_pre_backward(Call& call) {
  mhc_pre_backward_args a{};
  a.size = sizeof(a);
  a.spec = call.spec();
  a.x = call.input(2);
  a.params = call.params();
  a.z = call.input(1);
  a.inv_rms = call.input(0);
  a.d_layer_input = call.input(1);
  a.d_h_pre = call.input(1);
  a.d_h_post = call.input(1);
  a.d_h_res = call.input(2);
  a.d_x_next = call.input(2);
  a.d_x_post = call.input(2);
  a.d_x = call.output(2);
  a.gradients = call.gradients();
  return call.run(mhc_pre_backward, a, Call::sizes(MHC_OP_PRE_BACKWARD, a.x));
}

ffi::Error run_post(Call& call) {
  mhc_post_args a{};
  a.size = sizeof(a);
  a.spec = call.spec();
  a.x = call.input(2);
  a.layer_output = call.input(1);
  a.h_post = call.input(1);
  a.h_res = call.input(2);
  a.x_next = call.output(2);
  return call.run(mhc_post, a);
}

ffi::Error run_post_backward(Call& call) {
  mhc_post_backward_args a{};
  a.size = sizeof(a);
  a.spec = call.spec();
  a.d_x_next = call.input(2);
  a.x = call.input(2);
  a.layer_output = call.input(1);
  a.h_post = call.input(1);
  a.h_res = call.input(2);
  a.d_layer_output = call.output(1);
  a.d_h_post = call.output(1);
  a.d_h_res = call.output(2);
  a.d_x = call.output(2);
  return call.run(mhc_post_backward, a);
}

}  // namespace
}  // namespace mhc_jax

MHC_JAX_HANDLER(pre);
MHC_JAX_HANDLER(pre_backward);
MHC_JAX_HANDLER(post);
MHC_JAX_HANDLER(post_backward);
