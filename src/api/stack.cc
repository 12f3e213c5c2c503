// apply_pre, and what stands around a stack of sites: head, expand and reduce.

#include "api/call.h"
#include "kernels/collapse/collapse.h"
#include "kernels/pre/pre.h"
#include "kernels/pre_backward/pre_backward.h"
#include "kernels/spread/spread.h"

using namespace mhc::api;
using mhc::Runtime;
using mhc::Spec;
using mhc::Status;
using mhc::StatusCode;

namespace {

// What the halves check of the spec beyond the mix: its streams are x's.
Status check_streams(const char* operation, const Spec& spec, const mhc_tensor& x) {
  MHC_RETURN_IF_ERROR(mhc::check_spec(operation, spec, mhc::GateKind::kSite));
  if (x.rank != 3 || x.shape[1] == spec.streams) return {};
  return Status::error(StatusCode::kInvalidArgument,
                       "%s: x: expected shape [T, n=%lld, D>=1], got [%lld, %lld, %lld]", operation,
                       static_cast<long long>(spec.streams), static_cast<long long>(x.shape[0]),
                       static_cast<long long>(x.shape[1]), static_cast<long long>(x.shape[2]));
}

Status to_scale(const char* operation, int32_t mode, int64_t streams, double* scale) {
  if (mode != MHC_SUM && mode != MHC_MEAN) {
    return Status::error(StatusCode::kInvalidArgument,
                         "%s: mode: expected sum (0) or mean (1), got %d", operation, mode);
  }
  // Streams of 0 are refused later, by the operation's own check.
  *scale = mode == MHC_MEAN && streams > 0 ? 1.0 / static_cast<double>(streams) : 1.0;
  return {};
}

}  // namespace

extern "C" {

mhc_status mhc_apply_pre(const mhc_apply_pre_args* args, const mhc_runtime* runtime) {
  constexpr const char* kOperation = "apply_pre";
  return call_with_spec(kOperation, "mhc_apply_pre_args", args, runtime,
                        [&](const Spec& spec, const Runtime& usable) -> Status {
                          MHC_RETURN_IF_ERROR(check_streams(kOperation, spec, args->x));
                          mhc::CollapseArgs a;
                          a.operation = kOperation;
                          a.weights_precision = spec.h_pre_precision;
                          a.x = to_tensor(args->x);
                          a.weights = to_tensor(args->h_pre);
                          a.out = to_tensor(args->layer_input);
                          if (!a.weights.present()) return absent(kOperation, "h_pre", "[T, n]");
                          return mhc::collapse(a, usable);
                        });
}

mhc_status mhc_apply_pre_backward(const mhc_apply_pre_backward_args* args,
                                  const mhc_runtime* runtime) {
  constexpr const char* kOperation = "apply_pre_backward";
  return call_with_spec(
      kOperation, "mhc_apply_pre_backward_args", args, runtime,
      [&](const Spec& spec, const Runtime& usable) -> Status {
        MHC_RETURN_IF_ERROR(mhc::check_spec(kOperation, spec, mhc::GateKind::kSite));
        mhc::SpreadArgs a;
        a.operation = kOperation;
        a.weights_precision = spec.h_pre_precision;
        a.streams = spec.streams;
        a.source = to_tensor(args->d_layer_input);
        a.weights = to_tensor(args->h_pre);
        a.x = to_tensor(args->x);
        a.out = to_tensor(args->d_x);
        a.d_weights = to_tensor(args->d_h_pre);
        if (a.out.present() && !a.weights.present()) return absent(kOperation, "h_pre", "[T, n]");
        return mhc::spread(a, usable);
      });
}

mhc_status mhc_head(const mhc_head_args* args, const mhc_runtime* runtime) {
  constexpr const char* kOperation = "head";
  return call_with_spec(kOperation, "mhc_head_args", args, runtime,
                        [&](const Spec& spec, const Runtime& usable) {
                          mhc::PreArgs a;
                          a.operation = kOperation;
                          a.kind = mhc::GateKind::kHead;
                          a.spec = spec;
                          a.x = to_tensor(args->x);
                          a.params = to_params(args->params);
                          a.packed_phi = args->packed_phi.data;
                          a.packed_phi_bytes = args->packed_phi.bytes;
                          a.layer_input = to_tensor(args->out);
                          a.z = to_tensor(args->z);
                          a.inv_rms = to_tensor(args->inv_rms);
                          a.h_pre = to_tensor(args->h_pre);
                          a.workspace = to_workspace(args->workspace);
                          return mhc::pre(a, usable);
                        });
}

mhc_status mhc_head_backward(const mhc_head_backward_args* args, const mhc_runtime* runtime) {
  constexpr const char* kOperation = "head_backward";
  return call_with_spec(
      kOperation, "mhc_head_backward_args", args, runtime,
      [&](const Spec& spec, const Runtime& usable) -> Status {
        mhc::PreBackwardArgs a;
        a.operation = kOperation;
        a.kind = mhc::GateKind::kHead;
        a.spec = spec;
        a.x = to_tensor(args->x);
        a.params = to_params(args->params);
        a.z = to_tensor(args->z);
        a.inv_rms = to_tensor(args->inv_rms);
        a.d_layer_input = to_tensor(args->d_out);
        a.d_x = to_tensor(args->d_x);
        set_gradients(args->gradients, &a);
        a.workspace = to_workspace(args->workspace);
        MHC_RETURN_IF_ERROR(to_flag(kOperation, "accumulate", args->accumulate, &a.accumulate));
        if (!a.d_layer_input.present()) return absent(kOperation, "d_out", "[T, D]");
        return mhc::pre_backward(a, usable);
      });
}

mhc_status mhc_expand(const mhc_expand_args* args, const mhc_runtime* runtime) {
  constexpr const char* kOperation = "expand";
  return call(kOperation, "mhc_expand_args", args, runtime, [&](const Runtime& usable) {
    mhc::SpreadArgs a;
    a.operation = kOperation;
    a.streams = args->streams;
    a.source = to_tensor(args->h);
    a.out = to_tensor(args->x);
    return a.out.present() ? mhc::spread(a, usable) : absent(kOperation, "x", "[T, n, D]");
  });
}

mhc_status mhc_expand_backward(const mhc_expand_backward_args* args, const mhc_runtime* runtime) {
  constexpr const char* kOperation = "expand_backward";
  return call(kOperation, "mhc_expand_backward_args", args, runtime, [&](const Runtime& usable) {
    mhc::CollapseArgs a;
    a.operation = kOperation;
    a.x = to_tensor(args->d_x);
    a.out = to_tensor(args->d_h);
    return mhc::collapse(a, usable);
  });
}

mhc_status mhc_reduce(const mhc_reduce_args* args, const mhc_runtime* runtime) {
  constexpr const char* kOperation = "reduce";
  return call(kOperation, "mhc_reduce_args", args, runtime, [&](const Runtime& usable) -> Status {
    mhc::CollapseArgs a;
    a.operation = kOperation;
    a.x = to_tensor(args->x);
    a.out = to_tensor(args->out);
    MHC_RETURN_IF_ERROR(to_scale(kOperation, args->mode, args->x.shape[1], &a.scale));
    return mhc::collapse(a, usable);
  });
}

mhc_status mhc_reduce_backward(const mhc_reduce_backward_args* args, const mhc_runtime* runtime) {
  constexpr const char* kOperation = "reduce_backward";
  return call(
      kOperation, "mhc_reduce_backward_args", args, runtime, [&](const Runtime& usable) -> Status {
        mhc::SpreadArgs a;
        a.operation = kOperation;
        a.streams = args->streams;
        a.source = to_tensor(args->d_out);
        a.out = to_tensor(args->d_x);
        MHC_RETURN_IF_ERROR(to_scale(kOperation, args->mode, args->streams, &a.scale));
        return a.out.present() ? mhc::spread(a, usable) : absent(kOperation, "d_x", "[T, n, D]");
      });
}

}  // extern "C"
