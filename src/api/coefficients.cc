// The coefficients alone: from x, or from the partial sums of shards.

#include "kernels/coefficients/coefficients.h"

#include "api/call.h"
#include "kernels/pre/pre.h"
#include "kernels/pre_backward/pre_backward.h"

using namespace mhc::api;
using mhc::GateKind;
using mhc::Runtime;
using mhc::Spec;
using mhc::Status;

extern "C" {

mhc_status mhc_coefficients(const mhc_coefficients_args* args, const mhc_runtime* runtime) {
  constexpr const char* kOperation = "coefficients";
  return call_with_spec(kOperation, "mhc_coefficients_args", args, runtime,
                        [&](const Spec& spec, const Runtime& usable) {
                          mhc::PreArgs a;
                          a.operation = kOperation;
                          a.spec = spec;
                          a.x = to_tensor(args->x);
                          a.params = to_params(args->params);
                          a.packed_phi = args->packed_phi.data;
                          a.packed_phi_bytes = args->packed_phi.bytes;
                          a.z = to_tensor(args->z);
                          a.inv_rms = to_tensor(args->inv_rms);
                          a.h_pre = to_tensor(args->h_pre);
                          a.h_post = to_tensor(args->h_post);
                          a.h_res = to_tensor(args->h_res);
                          a.workspace = to_workspace(args->workspace);
                          return mhc::pre(a, usable);
                        });
}

mhc_status mhc_coefficients_backward(const mhc_coefficients_backward_args* args,
                                     const mhc_runtime* runtime) {
  constexpr const char* kOperation = "coefficients_backward";
  return call_with_spec(
      kOperation, "mhc_coefficients_backward_args", args, runtime,
      [&](const Spec& spec, const Runtime& usable) -> Status {
        mhc::PreBackwardArgs a;
        a.operation = kOperation;
        a.spec = spec;
        a.x = to_tensor(args->x);
        a.params = to_params(args->params);
        a.z = to_tensor(args->z);
        a.inv_rms = to_tensor(args->inv_rms);
        a.d_h_pre = to_tensor(args->d_h_pre);
        a.d_h_post = to_tensor(args->d_h_post);
        a.d_h_res = to_tensor(args->d_h_res);
        a.d_x = to_tensor(args->d_x);
        set_gradients(args->gradients, &a);
        a.workspace = to_workspace(args->workspace);
        MHC_RETURN_IF_ERROR(to_flag(kOperation, "accumulate", args->accumulate, &a.accumulate));
        return mhc::pre_backward(a, usable);
      });
}

mhc_status mhc_project_partial(const mhc_project_partial_args* args, const mhc_runtime* runtime) {
  constexpr const char* kOperation = "project_partial";
  return call_with_spec(kOperation, "mhc_project_partial_args", args, runtime,
                        [&](const Spec& spec, const Runtime& usable) {
                          mhc::PreArgs a;
                          a.operation = kOperation;
                          a.spec = spec;
                          a.kind = static_cast<GateKind>(args->kind);
                          a.x = to_tensor(args->x);
                          a.params.phi = to_tensor(args->phi);
                          a.params.norm_weight = to_tensor(args->norm_weight);
                          a.packed_phi = args->packed_phi.data;
                          a.packed_phi_bytes = args->packed_phi.bytes;
                          a.q = to_tensor(args->q);
                          a.sum_squares = to_tensor(args->sum_squares);
                          a.workspace = to_workspace(args->workspace);
                          return mhc::pre(a, usable);
                        });
}

mhc_status mhc_project_partial_backward(const mhc_project_partial_backward_args* args,
                                        const mhc_runtime* runtime) {
  constexpr const char* kOperation = "project_partial_backward";
  return call_with_spec(
      kOperation, "mhc_project_partial_backward_args", args, runtime,
      [&](const Spec& spec, const Runtime& usable) -> Status {
        mhc::PreBackwardArgs a;
        a.operation = kOperation;
        a.spec = spec;
        a.kind = static_cast<GateKind>(args->kind);
        a.x = to_tensor(args->x);
        a.params.phi = to_tensor(args->phi);
        a.params.norm_weight = to_tensor(args->norm_weight);
        a.d_q = to_tensor(args->d_q);
        a.d_sum_squares = to_tensor(args->d_sum_squares);
        a.d_x_post = to_tensor(args->d_x_post);
        a.d_x = to_tensor(args->d_x);
        a.d_phi = to_tensor(args->d_phi);
        a.d_norm_weight = to_tensor(args->d_norm_weight);
        a.workspace = to_workspace(args->workspace);
        MHC_RETURN_IF_ERROR(to_flag(kOperation, "accumulate", args->accumulate, &a.accumulate));
        if (!a.d_q.present()) return absent(kOperation, "d_q", "[T, m]");
        return mhc::pre_backward(a, usable);
      });
}

mhc_status mhc_coefficients_from_partials(const mhc_coefficients_from_partials_args* args,
                                          const mhc_runtime* runtime) {
  return call_with_spec("coefficients_from_partials", "mhc_coefficients_from_partials_args", args,
                        runtime, [&](const Spec& spec, const Runtime& usable) {
                          mhc::CoefficientsArgs a;
                          a.spec = spec;
                          a.kind = static_cast<GateKind>(args->kind);
                          a.embedding_total = args->embedding_total;
                          a.q = to_tensor(args->q);
                          a.sum_squares = to_tensor(args->sum_squares);
                          a.alpha = to_tensor(args->alpha);
                          a.bias = to_tensor(args->bias);
                          a.z = to_tensor(args->z);
                          a.inv_rms = to_tensor(args->inv_rms);
                          a.h_pre = to_tensor(args->h_pre);
                          a.h_post = to_tensor(args->h_post);
                          a.h_res = to_tensor(args->h_res);
                          a.workspace = to_workspace(args->workspace);
                          return mhc::coefficients_from_partials(a, usable);
                        });
}

mhc_status mhc_coefficients_from_partials_backward(
    const mhc_coefficients_from_partials_backward_args* args, const mhc_runtime* runtime) {
  constexpr const char* kOperation = "coefficients_from_partials_backward";
  return call_with_spec(
      kOperation, "mhc_coefficients_from_partials_backward_args", args, runtime,
      [&](const Spec& spec, const Runtime& usable) -> Status {
        mhc::CoefficientsBackwardArgs a;
        a.spec = spec;
        a.kind = static_cast<GateKind>(args->kind);
        a.embedding_total = args->embedding_total;
        a.z = to_tensor(args->z);
        a.inv_rms = to_tensor(args->inv_rms);
        a.sum_squares = to_tensor(args->sum_squares);
        a.alpha = to_tensor(args->alpha);
        a.bias = to_tensor(args->bias);
        a.d_h_pre = to_tensor(args->d_h_pre);
        a.d_h_post = to_tensor(args->d_h_post);
        a.d_h_res = to_tensor(args->d_h_res);
        a.d_q = to_tensor(args->d_q);
        a.d_sum_squares = to_tensor(args->d_sum_squares);
        a.d_alpha = to_tensor(args->d_alpha);
        a.d_bias = to_tensor(args->d_bias);
        a.workspace = to_workspace(args->workspace);
        MHC_RETURN_IF_ERROR(to_flag(kOperation, "accumulate", args->accumulate, &a.accumulate));
        return mhc::coefficients_from_partials_backward(a, usable);
      });
}

}  // extern "C"
