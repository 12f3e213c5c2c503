#include "api/call.h"

#include <cstddef>
#include <cstdio>

namespace mhc::api {
namespace {

// The C structs are the library's own, field by field.
static_assert(sizeof(mhc_tensor) == sizeof(Tensor) && sizeof(Tensor) == 64);
static_assert(offsetof(mhc_tensor, shape) == offsetof(Tensor, shape));
static_assert(offsetof(mhc_tensor, stride) == offsetof(Tensor, stride));
static_assert(MHC_F32 == static_cast<int32_t>(DType::kF32));
static_assert(MHC_BF16 == static_cast<int32_t>(DType::kBF16));
static_assert(MHC_F16 == static_cast<int32_t>(DType::kF16));
static_assert(MHC_F64 == static_cast<int32_t>(DType::kF64));
static_assert(MHC_INVALID_ARGUMENT == static_cast<int32_t>(StatusCode::kInvalidArgument));
static_assert(MHC_UNSUPPORTED == static_cast<int32_t>(StatusCode::kUnsupported));
static_assert(MHC_OUT_OF_MEMORY == static_cast<int32_t>(StatusCode::kOutOfMemory));
static_assert(MHC_BAD_INPUT == static_cast<int32_t>(StatusCode::kInput));
static_assert(MHC_OUTPUT_INPUT == static_cast<int32_t>(MatrixOrder::kOutputInput));
static_assert(MHC_NORM_OUTSIDE == static_cast<int32_t>(NormForm::kOutside));
static_assert(MHC_BFLOAT16 == static_cast<int32_t>(Precision::kBFloat16));
static_assert(MHC_GATE_ACTIVATION == static_cast<int32_t>(GatePrecision::kActivation));
static_assert(MHC_HEAD == static_cast<int32_t>(GateKind::kHead));
static_assert(sizeof(mhc_spec) == 88, "grow it only with the SOVERSION");

thread_local char last_error[sizeof(Status::message)] = "";

}  // namespace

mhc_status finish(const Status& status) {
  if (!status.ok()) std::snprintf(last_error, sizeof(last_error), "%s", status.message);
  return static_cast<mhc_status>(status.code);
}

Status null_argument(const char* operation, const char* argument) {
  return Status::error(StatusCode::kInvalidArgument, "%s: %s: expected a pointer, got null",
                       operation, argument);
}

Status absent(const char* operation, const char* argument, const char* shape) {
  return Status::error(StatusCode::kInvalidArgument, "%s: %s: expected shape %s, got no tensor",
                       operation, argument, shape);
}

Status check_struct_size(const char* operation, const char* argument, size_t got, size_t expected,
                         const char* type) {
  if (got == expected) return {};
  return Status::error(StatusCode::kInvalidArgument,
                       "%s: %s: expected %zu, the size of %s, got %zu", operation, argument,
                       expected, type, got);
}

Status to_spec(const char* operation, const mhc_spec* from, Spec* to) {
  if (from == nullptr) return null_argument(operation, "spec");
  MHC_RETURN_IF_ERROR(
      check_struct_size(operation, "spec.size", from->size, sizeof(mhc_spec), "mhc_spec"));
  to->streams = from->streams;
  to->manifold = from->manifold;
  to->manifold_options = {from->iterations, from->form, from->eps};
  to->matrix_order = static_cast<MatrixOrder>(from->matrix_order);
  to->norm_eps = from->norm_eps;
  to->norm_form = static_cast<NormForm>(from->norm_form);
  to->pre_eps = from->pre_eps;
  to->post_mult = from->post_mult;
  to->phi_precision = static_cast<Precision>(from->phi_precision);
  to->gradient_precision = static_cast<Precision>(from->gradient_precision);
  to->h_pre_precision = static_cast<GatePrecision>(from->h_pre_precision);
  to->h_post_precision = static_cast<GatePrecision>(from->h_post_precision);
  to->h_res_precision = static_cast<GatePrecision>(from->h_res_precision);
  return {};
}

Status to_flag(const char* operation, const char* argument, int32_t from, bool* to) {
  if (from != 0 && from != 1) {
    return Status::error(StatusCode::kInvalidArgument, "%s: %s: expected 0 or 1, got %d", operation,
                         argument, from);
  }
  *to = from == 1;
  return {};
}

}  // namespace mhc::api

extern "C" const char* mhc_last_error(void) { return mhc::api::last_error; }
