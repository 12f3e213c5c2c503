// Coefficients alone, and the collapse with given gates. Shapes: include/mhc/operations.h.

#include "call.h"

namespace mhc_jax {
namespace {

ffi::Error run_coefficients(Call& call) {
  mhc_coefficients_args a{};
  a.size = sizeof(a);
  a.spec = call.spec();
  a.x = call.input(2);
  a.params = call.params();
  a.z = call.output(1);
  a.inv_rms = call.output(0);
  a.h_pre = call.output(1);
  a.h_post = call.output(1);
  a.h_res = call.output(2);
  return call.run(mhc_coefficients, a, Call::sizes(MHC_OP_COEFFICIENTS, a.x));
}

ffi::Error run_coefficients_backward(Call& call) {
  mhc_coefficients_backward_args a{};
  a.size = sizeof(a);
  a.spec = call.spec();
  a.x = call.input(2);
  a.params = call.params();
  a.z = call.input(1);
  a.inv_rms = call.input(0);
  a.d_h_pre = call.input(1);
  a.d_h_post = call.input(1);
  a.d_h_res = call.input(2);
  a.d_x = call.output(2);
  a.gradients = call.gradients();
  return call.run(mhc_coefficients_backward, a, Call::sizes(MHC_OP_COEFFICIENTS_BACKWARD, a.x));
}

ffi::Error run_apply_pre(Call& call) {
  mhc_apply_pre_args a{};
  a.size = sizeof(a);
  a.spec = call.spec();
  a.x = call.input(2);
  a.h_pre = call.input(1);
  a.layer_input = call.output(1);
  return call.run(mhc_apply_pre, a);
}

ffi::Error run_apply_pre_backward(Call& call) {
  mhc_apply_pre_backward_args a{};
  a.size = sizeof(a);
  a.spec = call.spec();
  a.d_layer_input = call.input(1);
  a.x = call.input(2);
  a.h_pre = call.input(1);
  a.d_x = call.output(2);
  a.d_h_pre = call.output(1);
  return call.run(mhc_apply_pre_backward, a);
}

}  // namespace
}  // namespace mhc_jax

MHC_JAX_HANDLER(coefficients);
MHC_JAX_HANDLER(coefficients_backward);
MHC_JAX_HANDLER(apply_pre);
MHC_JAX_HANDLER(apply_pre_backward);
