// One site: pre, post and their backwards.

#include "api/call.h"
#include "kernels/post/post.h"
#include "kernels/post_backward/post_backward.h"
#include "kernels/pre/pre.h"
#include "kernels/pre_backward/pre_backward.h"

namespace mhc::api {
namespace {

mhc_status run_post(const char* operation, const mhc_post_args* args, const mhc_runtime* runtime) {
  return call_with_spec(operation, "mhc_post_args", args, runtime,
                        [&](const Spec& spec, const Runtime& usable) {
                          PostArgs a;
                          a.spec = spec;
                          a.x = to_tensor(args->x);
                          a.layer_output = to_tensor(args->layer_output);
                          a.h_post = to_tensor(args->h_post);
                          a.h_res = to_tensor(args->h_res);
                          a.x_next = to_tensor(args->x_next);
                          a.operation = operation;
                          return post(a, usable);
                        });
}

mhc_status run_post_backward(const char* operation, const mhc_post_backward_args* args,
                             const mhc_runtime* runtime) {
  return call_with_spec(operation, "mhc_post_backward_args", args, runtime,
                        [&](const Spec& spec, const Runtime& usable) {
                          PostBackwardArgs a;
                          a.spec = spec;
                          a.d_x_next = to_tensor(args->d_x_next);
                          a.x = to_tensor(args->x);
                          a.layer_output = to_tensor(args->layer_output);
                          a.h_post = to_tensor(args->h_post);
                          a.h_res = to_tensor(args->h_res);
                          a.d_layer_output = to_tensor(args->d_layer_output);
                          a.d_h_post = to_tensor(args->d_h_post);
                          a.d_h_res = to_tensor(args->d_h_res);
                          a.d_x = to_tensor(args->d_x);
                          a.operation = operation;
                          return post_backward(a, usable);
                        });
}

}  // namespace
}  // namespace mhc::api

using namespace mhc::api;
using mhc::Status;

extern "C" {

mhc_status mhc_pre(const mhc_pre_args* args, const mhc_runtime* runtime) {
  return call_with_spec("pre", "mhc_pre_args", args, runtime,
                        [&](const mhc::Spec& spec, const mhc::Runtime& usable) {
                          mhc::PreArgs a;
                          a.spec = spec;
                          a.x = to_tensor(args->x);
                          a.params = to_params(args->params);
                          a.packed_phi = args->packed_phi.data;
                          a.packed_phi_bytes = args->packed_phi.bytes;
                          a.layer_input = to_tensor(args->layer_input);
                          a.z = to_tensor(args->z);
                          a.inv_rms = to_tensor(args->inv_rms);
                          a.h_pre = to_tensor(args->h_pre);
                          a.h_post = to_tensor(args->h_post);
                          a.h_res = to_tensor(args->h_res);
                          a.workspace = to_workspace(args->workspace);
                          return mhc::pre(a, usable);
                        });
}

mhc_status mhc_pre_backward(const mhc_pre_backward_args* args, const mhc_runtime* runtime) {
  constexpr const char* kOperation = "pre_backward";
  return call_with_spec(
      kOperation, "mhc_pre_backward_args", args, runtime,
      [&](const mhc::Spec& spec, const mhc::Runtime& usable) -> Status {
        mhc::PreBackwardArgs a;
        a.spec = spec;
        a.x = to_tensor(args->x);
        a.params = to_params(args->params);
        a.z = to_tensor(args->z);
        a.inv_rms = to_tensor(args->inv_rms);
        a.d_layer_input = to_tensor(args->d_layer_input);
        a.d_h_pre = to_tensor(args->d_h_pre);
        a.d_h_post = to_tensor(args->d_h_post);
        a.d_h_res = to_tensor(args->d_h_res);
        a.d_x_next = to_tensor(args->d_x_next);
        a.d_x_post = to_tensor(args->d_x_post);
        a.d_x = to_tensor(args->d_x);
        set_gradients(args->gradients, &a);
        a.workspace = to_workspace(args->workspace);
        MHC_RETURN_IF_ERROR(to_flag(kOperation, "accumulate", args->accumulate, &a.accumulate));
        return mhc::pre_backward(a, usable);
      });
}

mhc_status mhc_post(const mhc_post_args* args, const mhc_runtime* runtime) {
  return run_post("post", args, runtime);
}
mhc_status mhc_post_backward(const mhc_post_backward_args* args, const mhc_runtime* runtime) {
  return run_post_backward("post_backward", args, runtime);
}
mhc_status mhc_apply_post(const mhc_apply_post_args* args, const mhc_runtime* runtime) {
  return run_post("apply_post", args, runtime);
}
mhc_status mhc_apply_post_backward(const mhc_apply_post_backward_args* args,
                                   const mhc_runtime* runtime) {
  return run_post_backward("apply_post_backward", args, runtime);
}

}  // extern "C"
