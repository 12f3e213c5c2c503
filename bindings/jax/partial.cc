// Features sharded over devices. Shapes: include/mhc/operations.h.

#include "call.h"

namespace mhc_jax {
namespace {

ffi::Error run_project_partial(Call& call) {
  mhc_project_partial_args a{};
  a.size = sizeof(a);
  a.spec = call.spec();
  a.kind = MHC_SITE;
  a.x = call.input(2);
  a.phi = call.whole_input();
  a.norm_weight = call.whole_input();
  a.q = call.output(1);
  a.sum_squares = call.output(0);
  return call.run(mhc_project_partial, a, Call::sizes(MHC_OP_PROJECT_PARTIAL, a.x));
}

ffi::Error run_project_partial_backward(Call& call) {
  mhc_project_partial_backward_args a{};
  a.size = sizeof(a);
  a.spec = call.spec();
  a.kind = MHC_SITE;
  a.x = call.input(2);
  a.phi = call.whole_input();
  a.norm_weight = call.whole_input();
  a.d_q = call.input(1);
  a.d_sum_squares = call.input(0);
  a.d_x = call.output(2);
  a.d_phi = call.whole_output();
  a.d_norm_weight = call.whole_output();
  return call.run(mhc_project_partial_backward, a,
                  Call::sizes(MHC_OP_PROJECT_PARTIAL_BACKWARD, a.x));
}

ffi::Error run_coefficients_from_partials(Call& call) {
  mhc_coefficients_from_partials_args a{};
  a.size = sizeof(a);
  a.spec = call.spec();
  a.kind = MHC_SITE;
  a.embedding_total = call.integer("embedding_total");
  a.q = call.input(1);
  a.sum_squares = call.input(0);
  a.alpha = call.whole_input();
  a.bias = call.whole_input();
  a.z = call.output(1);
  a.inv_rms = call.output(0);
  a.h_pre = call.output(1);
  a.h_post = call.output(1);
  a.h_res = call.output(2);
  return call.run(
      mhc_coefficients_from_partials, a,
      {MHC_OP_COEFFICIENTS_FROM_PARTIALS, MHC_SITE, a.q.shape[0], a.embedding_total, a.q.dtype});
}

ffi::Error run_coefficients_from_partials_backward(Call& call) {
  mhc_coefficients_from_partials_backward_args a{};
  a.size = sizeof(a);
  a.spec = call.spec();
  a.kind = MHC_SITE;
  a.embedding_total = call.integer("embedding_total");
  a.z = call.input(1);
  a.inv_rms = call.input(0);
  a.sum_squares = call.input(0);
  a.alpha = call.whole_input();
  a.bias = call.whole_input();
  a.d_h_pre = call.input(1);
  a.d_h_post = call.input(1);
  a.d_h_res = call.input(2);
  a.d_q = call.output(1);
  a.d_sum_squares = call.output(0);
  a.d_alpha = call.whole_output();
  a.d_bias = call.whole_output();
  return call.run(mhc_coefficients_from_partials_backward, a,
                  {MHC_OP_COEFFICIENTS_FROM_PARTIALS_BACKWARD, MHC_SITE, a.z.shape[0],
                   a.embedding_total, a.z.dtype});
}

}  // namespace
}  // namespace mhc_jax

MHC_JAX_HANDLER(project_partial);
MHC_JAX_HANDLER(project_partial_backward);
MHC_JAX_HANDLER(coefficients_from_partials);
MHC_JAX_HANDLER(coefficients_from_partials_backward);
