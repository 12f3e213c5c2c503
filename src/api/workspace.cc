// How much scratch an operation needs, and phi packed ahead.

#include "api/call.h"
#include "kernels/coefficients/coefficients.h"
#include "kernels/pre/pre.h"
#include "kernels/pre_backward/pre_backward.h"

namespace mhc::api {
namespace {

struct Problem {
  Spec spec;
  GateKind kind = GateKind::kSite;
  Dims dims;
  DType activation = DType::kF32;
};

// tokens and embedding are judged where the operation reads them.
Status to_problem(const char* operation, const mhc_problem* from, Problem* to) {
  if (from == nullptr) return null_argument(operation, "problem");
  MHC_RETURN_IF_ERROR(
      check_struct_size(operation, "problem.size", from->size, sizeof(mhc_problem), "mhc_problem"));
  MHC_RETURN_IF_ERROR(to_spec(operation, from->spec, &to->spec));
  to->kind = static_cast<GateKind>(from->kind);
  MHC_RETURN_IF_ERROR(check_spec(operation, to->spec, to->kind));
  to->activation = static_cast<DType>(from->activation);
  to->dims = {from->tokens, to->spec.streams, from->embedding};
  if (is_valid(to->activation)) return {};
  return Status::error(StatusCode::kInvalidArgument,
                       "%s: activation: expected f32 (0), bf16 (1), f16 (2) or f64 (3), got %d",
                       operation, from->activation);
}

// The largest tensor, with its element size, must fit 63 bits.
Status check_sizes(const char* operation, const Problem& p, bool reads_tokens) {
  Checker c(operation);
  const int64_t m = gate_layout(p.spec, p.kind).coefficients();
  if (!c.range("embedding", p.dims.embedding, 1, INT64_MAX / (64 * p.dims.streams * m))) {
    return c.status();
  }
  if (reads_tokens) c.range("tokens", p.dims.tokens, 0, INT64_MAX / (16 * p.dims.flat()));
  return c.status();
}

Status workspace_bytes(const char* name, mhc_operation operation, Problem p, const Runtime& runtime,
                       size_t* bytes) {
  const bool head = operation == MHC_OP_HEAD || operation == MHC_OP_HEAD_BACKWARD;
  const bool partial = operation >= MHC_OP_PROJECT_PARTIAL &&
                       operation <= MHC_OP_COEFFICIENTS_FROM_PARTIALS_BACKWARD;
  if (!partial) p.kind = head ? GateKind::kHead : GateKind::kSite;
  MHC_RETURN_IF_ERROR(check_sizes(name, p, true));
  switch (operation) {
    case MHC_OP_PRE:
    case MHC_OP_COEFFICIENTS:
    case MHC_OP_PROJECT_PARTIAL:
    case MHC_OP_HEAD:
      *bytes = pre_workspace_bytes(p.spec, p.kind, p.dims, p.activation, runtime);
      return {};
    case MHC_OP_PRE_BACKWARD:
    case MHC_OP_COEFFICIENTS_BACKWARD:
    case MHC_OP_PROJECT_PARTIAL_BACKWARD:
    case MHC_OP_HEAD_BACKWARD:
      *bytes = pre_backward_workspace_bytes(p.spec, p.kind, p.dims, p.activation, runtime);
      return {};
    case MHC_OP_COEFFICIENTS_FROM_PARTIALS:
    case MHC_OP_COEFFICIENTS_FROM_PARTIALS_BACKWARD:
      *bytes = p.activation == DType::kF64
                   ? 0
                   : coefficients_workspace_bytes(p.spec, p.kind, p.dims.tokens, runtime);
      return {};
    default:
      return Status::error(
          StatusCode::kInvalidArgument,
          "%s: operation: expected one of MHC_OP_PRE (0) to MHC_OP_HEAD_BACKWARD (9), got %d", name,
          operation);
  }
}

}  // namespace
}  // namespace mhc::api

using namespace mhc::api;
using mhc::Status;

extern "C" {

mhc_status mhc_workspace_bytes(mhc_operation operation, const mhc_problem* problem,
                               const mhc_runtime* runtime, size_t* bytes) {
  constexpr const char* kOperation = "workspace_bytes";
  return guarded(kOperation, [&]() -> Status {
    if (bytes == nullptr) return null_argument(kOperation, "bytes");
    Problem p;
    MHC_RETURN_IF_ERROR(to_problem(kOperation, problem, &p));
    const mhc::Runtime* usable = nullptr;
    MHC_RETURN_IF_ERROR(to_runtime(kOperation, runtime, &usable));
    return workspace_bytes(kOperation, operation, p, *usable, bytes);
  });
}

mhc_status mhc_packed_phi_bytes(const mhc_problem* problem, const mhc_runtime* runtime,
                                size_t* bytes) {
  constexpr const char* kOperation = "packed_phi_bytes";
  return guarded(kOperation, [&]() -> Status {
    if (bytes == nullptr) return null_argument(kOperation, "bytes");
    Problem p;
    MHC_RETURN_IF_ERROR(to_problem(kOperation, problem, &p));
    MHC_RETURN_IF_ERROR(check_sizes(kOperation, p, false));
    const mhc::Runtime* usable = nullptr;
    MHC_RETURN_IF_ERROR(to_runtime(kOperation, runtime, &usable));
    *bytes = mhc::packed_phi_bytes(p.spec, p.kind, p.dims.embedding, p.activation, *usable);
    return {};
  });
}

mhc_status mhc_pack_phi(const mhc_pack_phi_args* args, const mhc_runtime* runtime) {
  constexpr const char* kOperation = "pack_phi";
  return call(kOperation, "mhc_pack_phi_args", args, runtime,
              [&](const mhc::Runtime& usable) -> Status {
                Problem p;
                MHC_RETURN_IF_ERROR(to_problem(kOperation, &args->problem, &p));
                MHC_RETURN_IF_ERROR(check_sizes(kOperation, p, false));
                mhc::Params params;
                params.phi = to_tensor(args->phi);
                params.norm_weight = to_tensor(args->norm_weight);
                return mhc::pack_phi(p.spec, p.kind, params, p.dims.embedding, p.activation,
                                     args->packed, args->packed_bytes, usable);
              });
}

}  // extern "C"
