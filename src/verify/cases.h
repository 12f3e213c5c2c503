#pragma once
// A case: everything that selects one call of one operation. Declared once, used by the tests and
// by the command.

#include <cstdint>
#include <string>

#include "base/dims.h"
#include "base/dtype.h"
#include "manifold/spec.h"
#include "verify/buffer.h"

namespace mhc::verify {

enum class Op : int32_t {
  kPost = 0,
  kPostBackward,
  kCollapse,
  kSpread,
  kPre,
  kPreBackward,
  kCoefficients,
  kCoefficientsBackward,
};
inline constexpr int32_t kOps = 8;
const char* name_of(Op op);

struct Case {
  Op op = Op::kPost;
  Dims dims{5, 4, 33};
  DType dtype = DType::kBF16;
  DType param_dtype = DType::kF32;
  Spec spec;  // streams is taken from dims
  GateKind kind = GateKind::kSite;

  bool norm_weight = false;
  bool partial = false;           // project_partial: sums over features without gates
  bool packed = false;            // phi packed by the caller
  bool lazy = true;               // pre_backward mixes g itself; post_backward leaves d_x out
  bool accumulate = false;        // parameter gradients start from what is there
  bool narrow_gradients = false;  // in the parameter's type instead of f32
  bool no_cotangents = false;     // of gates: only what comes through layer_input
  bool weightless = false;        // collapse and spread without weights
  bool in_place = false;
  bool broadcast = false;  // the cotangent has a stride of 0 over tokens
  uint32_t outputs = ~0u;  // bit i: the i-th output of the operation

  Placement placement = Placement::kAligned;
  Padding padding;         // of activations
  double gate_scale = 1;   // of the logits
  double peak = 0;         // how far the first permutation, or the diagonal, leads
  double value_scale = 1;  // of activations
  uint64_t seed = 1;
};

// One line that tells the case from any other.
std::string describe(const Case& c);

}  // namespace mhc::verify
