#include "kernels/common/check_args.h"

#include <cfloat>
#include <cstdio>

namespace mhc {
namespace {

using C = StatusCode;

template <class E>
void check_enum(Checker* c, const char* name, E value, const char* zero, const char* one) {
  const int32_t v = static_cast<int32_t>(value);
  if (v == 0 || v == 1) return;
  c->fail(C::kInvalidArgument, name, "expected %s (0) or %s (1), got %d", zero, one, v);
}

// Kernels hold these as f32.
void check_number(Checker* c, const char* name, double value, double least, const char* wanted) {
  if (value >= least && value <= double{FLT_MAX}) return;
  c->fail(C::kInvalidArgument, name, "expected %s, got %g", wanted, value);
}

void check_manifold(Checker* c, const Spec& spec, const ManifoldInfo& manifold) {
  const ManifoldOptions& o = spec.manifold_options;
  if (spec.streams < 1 || spec.streams > manifold.max_streams) {
    c->fail(C::kInvalidArgument, "spec.streams", "expected 1 to %lld for manifold %s, got %lld",
            static_cast<long long>(manifold.max_streams), manifold.name,
            static_cast<long long>(spec.streams));
  }
  c->range("spec.iterations", o.iterations, 1, kMaxIterations);
  if (o.form != 0) {
    c->fail(C::kUnsupported, "spec.form",
            "expected softmax (0), the only form that is built, got %d", o.form);
  }
  check_number(c, "spec.eps", o.eps, 0, "a finite number of at least 0");
}

}  // namespace

Status check_spec(const char* operation, const Spec& spec, GateKind kind) {
  Checker c(operation);
  const ManifoldInfo* manifold = find_manifold(spec.manifold);
  if (manifold == nullptr) {
    char known[160];
    size_t length = 0;
    for (int32_t i = 0; const ManifoldInfo* m = manifold_at(i); ++i) {
      const int wrote = std::snprintf(known + length, sizeof(known) - length, "%s%s (%d)",
                                      i == 0 ? "" : ", ", m->name, m->id);
      if (wrote < 0 || static_cast<size_t>(wrote) >= sizeof(known) - length) break;
      length += static_cast<size_t>(wrote);
    }
    c.fail(C::kInvalidArgument, "spec.manifold", "expected one of %s, got %d", known,
           spec.manifold);
    return c.status();
  }
  check_manifold(&c, spec, *manifold);
  check_enum(&c, "kind", kind, "site", "head");
  check_enum(&c, "spec.matrix_order", spec.matrix_order, "input_output", "output_input");
  check_enum(&c, "spec.norm_form", spec.norm_form, "inside", "outside");
  check_enum(&c, "spec.phi_precision", spec.phi_precision, "float32", "bfloat16");
  check_enum(&c, "spec.gradient_precision", spec.gradient_precision, "float32", "bfloat16");
  check_enum(&c, "spec.h_pre_precision", spec.h_pre_precision, "float32", "activation");
  check_enum(&c, "spec.h_post_precision", spec.h_post_precision, "float32", "activation");
  check_enum(&c, "spec.h_res_precision", spec.h_res_precision, "float32", "activation");
  check_number(&c, "spec.norm_eps", spec.norm_eps, double{FLT_MIN},
               "a finite number of at least 1.2e-38");
  check_number(&c, "spec.pre_eps", spec.pre_eps, 0, "a finite number of at least 0");
  check_number(&c, "spec.post_mult", spec.post_mult, -double{FLT_MAX}, "a finite number");
  return c.status();
}

void check_mix_options(Checker* c, GatePrecision weights_precision, double scale) {
  check_enum(c, "weights_precision", weights_precision, "float32", "activation");
  check_number(c, "scale", scale, -double{FLT_MAX}, "a finite number");
}

void check_gate_params(Checker* c, const Tensor& alpha, const Tensor& bias,
                       const GateLayout& layout, DTypes types, bool needed) {
  const Shape alpha_shape = {{"groups", layout.groups()}};
  const Shape bias_shape = {{"m", layout.coefficients()}};
  if (needed) {
    c->input("alpha", alpha, alpha_shape, types);
    c->input("bias", bias, bias_shape, types);
  } else {
    c->optional_input("alpha", alpha, alpha_shape, types);
    c->optional_input("bias", bias, bias_shape, types);
  }
}

void check_phi(Checker* c, const Params& params, const GateLayout& layout, int64_t embedding,
               DTypes types, bool needed) {
  const Shape shape = {{"m", layout.coefficients()}, {"n", layout.streams}, {"D", embedding}};
  if (needed) {
    c->input("phi", params.phi, shape, types);
  } else {
    c->optional_input("phi", params.phi, shape, types);
  }
  c->optional_input("norm_weight", params.norm_weight, {{"n", layout.streams}, {"D", embedding}},
                    types);
}

Status check_workspace(const char* operation, const Workspace& workspace, size_t needed) {
  if (needed == 0) return {};
  if (workspace.data == nullptr) {
    return Status::error(C::kInvalidArgument, "%s: workspace: expected %zu bytes, got null",
                         operation, needed);
  }
  if (workspace.bytes >= needed) return {};
  return Status::error(C::kInvalidArgument, "%s: workspace: expected at least %zu bytes, got %zu",
                       operation, needed, workspace.bytes);
}

}  // namespace mhc
