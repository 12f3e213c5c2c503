#pragma once
// Everything that selects one member of the family of hyper-connections (docs/conventions.md).

#include <cstdint>

#include "base/macros.h"
#include "manifold/manifold.h"

namespace mhc {

enum class NormForm : int32_t { kInside = 0, kOutside = 1 };
enum class MatrixOrder : int32_t { kInputOutput = 0, kOutputInput = 1 };
enum class Precision : int32_t { kFloat32 = 0, kBFloat16 = 1 };
enum class GatePrecision : int32_t { kFloat32 = 0, kActivation = 1 };

// A site has pre, post and res coefficients; the head at the top of the stack has pre alone.
enum class GateKind : int32_t { kSite = 0, kHead = 1 };

struct Spec {
  int64_t streams = 4;
  int32_t manifold = 0;  // Sinkhorn::id
  ManifoldOptions manifold_options;
  MatrixOrder matrix_order = MatrixOrder::kInputOutput;
  double norm_eps = 1e-6;
  NormForm norm_form = NormForm::kInside;
  double pre_eps = 1e-6;
  double post_mult = 2.0;
  Precision phi_precision = Precision::kFloat32;
  Precision gradient_precision = Precision::kFloat32;
  GatePrecision h_pre_precision = GatePrecision::kFloat32;
  GatePrecision h_post_precision = GatePrecision::kFloat32;
  GatePrecision h_res_precision = GatePrecision::kFloat32;
};

// What the runtime list of manifolds knows of one of them.
struct ManifoldInfo {
  int32_t id;
  const char* name;
  const char* summary;
  int64_t max_streams;
  Marginals marginals;
  int64_t (*logits)(int64_t n);
  int64_t (*scratch_size)(int64_t n, const ManifoldOptions&);
  double (*marginal_tolerance)(int64_t n, const ManifoldOptions&);
};

// Null when nothing has this id or name.
const ManifoldInfo* find_manifold(int32_t id);
const ManifoldInfo* find_manifold(const char* name);
// All of them, in the order of the list; null past the end.
const ManifoldInfo* manifold_at(int32_t index);

// The m coefficients of a token and the groups they fall into, always in the order pre, post, res.
struct GateLayout {
  int64_t streams = 0;
  int64_t post = 0;  // n for a site, 0 for a head
  int64_t res = 0;   // L

  MHC_INLINE constexpr int64_t coefficients() const { return streams + post + res; }  // m
  // Entries of alpha: one per group.
  MHC_INLINE constexpr int64_t groups() const { return post == 0 ? 1 : 3; }
  MHC_INLINE constexpr int64_t group(int64_t c) const {
    return c < streams ? 0 : c < streams + post ? 1 : 2;
  }
};

GateLayout gate_layout(const Spec& spec, GateKind kind);

}  // namespace mhc
