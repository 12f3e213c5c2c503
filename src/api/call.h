#pragma once
// What every function of the C interface does around its operation: sizes of structs, spec,
// runtime, error.

#include <mhc/mhc.h>

#include <new>

#include "api/runtime.h"
#include "base/status.h"
#include "base/tensor.h"
#include "kernels/common/check_args.h"

namespace mhc::api {

// Keeps the message of an error for mhc_last_error().
mhc_status finish(const Status& status);

Status null_argument(const char* operation, const char* argument);
Status absent(const char* operation, const char* argument, const char* shape);
Status check_struct_size(const char* operation, const char* argument, size_t got, size_t expected,
                         const char* type);

Status to_spec(const char* operation, const mhc_spec* from, Spec* to);
Status to_flag(const char* operation, const char* argument, int32_t from, bool* to);

inline Tensor to_tensor(const mhc_tensor& t) {
  return {t.data,
          static_cast<DType>(t.dtype),
          t.rank,
          {t.shape[0], t.shape[1], t.shape[2]},
          {t.stride[0], t.stride[1], t.stride[2]}};
}

inline Params to_params(const mhc_params& p) {
  return {to_tensor(p.phi), to_tensor(p.alpha), to_tensor(p.bias), to_tensor(p.norm_weight)};
}

inline Workspace to_workspace(const mhc_workspace& w) { return {w.data, w.bytes}; }

template <class Args>
void set_gradients(const mhc_param_gradients& from, Args* to) {
  to->d_phi = to_tensor(from.d_phi);
  to->d_alpha = to_tensor(from.d_alpha);
  to->d_bias = to_tensor(from.d_bias);
  to->d_norm_weight = to_tensor(from.d_norm_weight);
}

// Runs f() -> Status and lets no exception out: the double reference, which f64 goes through,
// allocates.
template <class F>
mhc_status guarded(const char* operation, const F& f) {
  try {
    return finish(f());
  } catch (const std::bad_alloc&) {
    return finish(Status::error(StatusCode::kOutOfMemory, "%s: out of memory", operation));
  } catch (...) {
    return finish(
        Status::error(StatusCode::kUnsupported, "%s: an unexpected exception", operation));
  }
}

// f(runtime) -> Status, once args and runtime have been found usable. type: the name of Args.
template <class Args, class F>
mhc_status call(const char* operation, const char* type, const Args* args,
                const mhc_runtime* runtime, const F& f) {
  return guarded(operation, [&]() -> Status {
    if (args == nullptr) return null_argument(operation, "args");
    MHC_RETURN_IF_ERROR(check_struct_size(operation, "args.size", args->size, sizeof(Args), type));
    const Runtime* usable = nullptr;
    MHC_RETURN_IF_ERROR(to_runtime(operation, runtime, &usable));
    return f(*usable);
  });
}

// The same with a spec: f(spec, runtime).
template <class Args, class F>
mhc_status call_with_spec(const char* operation, const char* type, const Args* args,
                          const mhc_runtime* runtime, const F& f) {
  return call(operation, type, args, runtime, [&](const Runtime& usable) -> Status {
    Spec spec;
    MHC_RETURN_IF_ERROR(to_spec(operation, args->spec, &spec));
    return f(spec, usable);
  });
}

}  // namespace mhc::api
