#pragma once
// Checks that several operations share, in the words of base/check.h.

#include <cstddef>

#include "base/check.h"
#include "kernels/common/args.h"

namespace mhc {

inline constexpr int32_t kMaxIterations = 1000;

// A kind and a whole spec, whether or not the operation reads all of it.
Status check_spec(const char* operation, const Spec& spec, GateKind kind);

// The weights and the factor of collapse and spread.
void check_mix_options(Checker* checker, GatePrecision weights_precision, double scale);

// alpha and bias of a layout: needed, optional, or no place for them.
void check_gate_params(Checker* checker, const Tensor& alpha, const Tensor& bias,
                       const GateLayout& layout, DTypes types, bool needed);

// phi [m, n, D] and norm_weight [n, D].
void check_phi(Checker* checker, const Params& params, const GateLayout& layout, int64_t embedding,
               DTypes types, bool needed);

// What only the call with its Runtime can judge: `needed` is what <op>_workspace_bytes says.
Status check_workspace(const char* operation, const Workspace& workspace, size_t needed);

}  // namespace mhc
