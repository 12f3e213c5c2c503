// Around the stack: head, expand, reduce. Shapes: include/mhc/operations.h.

#include "call.h"

namespace mhc_jax {
namespace {

ffi::Error run_head(Call& call) {
  mhc_head_args a{};
  a.size = sizeof(a);
  a.spec = call.spec();
  a.x = call.input(2);
  a.params = call.params();
  a.out = call.output(1);
  a.z = call.output(1);
  a.inv_rms = call.output(0);
  return call.run(mhc_head, a, Call::sizes(MHC_OP_HEAD, a.x, MHC_HEAD));
}

ffi::Error run_head_backward(Call& call) {
  mhc_head_backward_args a{};
  a.size = sizeof(a);
  a.spec = call.spec();
  a.x = call.input(2);
  a.params = call.params();
  a.z = call.input(1);
  a.inv_rms = call.input(0);
  a.d_out = call.input(1);
  a.d_x = call.output(2);
  a.gradients = call.gradients();
  return call.run(mhc_head_backward, a, Call::sizes(MHC_OP_HEAD_BACKWARD, a.x, MHC_HEAD));
}

ffi::Error run_expand(Call& call) {
  mhc_expand_args a{};
  a.size = sizeof(a);
  a.streams = call.integer("copies");
  a.h = call.input(1);
  a.x = call.output(2);
  return call.run(mhc_expand, a);
}

ffi::Error run_expand_backward(Call& call) {
  mhc_expand_backward_args a{};
  a.size = sizeof(a);
  a.d_x = call.input(2);
  a.d_h = call.output(1);
  return call.run(mhc_expand_backward, a);
}

ffi::Error run_reduce(Call& call) {
  mhc_reduce_args a{};
  a.size = sizeof(a);
  a.mode = static_cast<int32_t>(call.integer("mode"));
  a.x = call.input(2);
  a.out = call.output(1);
  return call.run(mhc_reduce, a);
}

ffi::Error run_reduce_backward(Call& call) {
  mhc_reduce_backward_args a{};
  a.size = sizeof(a);
  a.mode = static_cast<int32_t>(call.integer("mode"));
  a.streams = call.integer("copies");
  a.d_out = call.input(1);
  a.d_x = call.output(2);
  return call.run(mhc_reduce_backward, a);
}

}  // namespace
}  // namespace mhc_jax

MHC_JAX_HANDLER(head);
MHC_JAX_HANDLER(head_backward);
MHC_JAX_HANDLER(expand);
MHC_JAX_HANDLER(expand_backward);
MHC_JAX_HANDLER(reduce);
MHC_JAX_HANDLER(reduce_backward);

// The version of XLA's interface that these handlers were compiled against; Python compares it with
// the one of the jaxlib that is running.
extern "C" MHC_EXPORT int32_t mhc_jax_ffi_major() { return XLA_FFI_API_MAJOR; }
extern "C" MHC_EXPORT int32_t mhc_jax_ffi_minor() { return XLA_FFI_API_MINOR; }
