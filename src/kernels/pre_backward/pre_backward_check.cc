#include "kernels/common/check_args.h"
#include "kernels/pre_backward/pre_backward.h"

namespace mhc {
namespace {

// Which arguments go together: the backward of project_partial gets d_q and d_sum_squares instead
// of everything that has to do with gates, and a head has neither post nor res gates.
void check_mode(Checker* c, const PreBackwardArgs& a, bool partial) {
  const char* reason = "d_q or d_sum_squares takes the place of the gates";
  const struct {
    const char* name;
    const Tensor* tensor;
  } of_gates[] = {
      {"z", &a.z},
      {"inv_rms", &a.inv_rms},
      {"d_layer_input", &a.d_layer_input},
      {"d_h_pre", &a.d_h_pre},
      {"d_h_post", &a.d_h_post},
      {"d_h_res", &a.d_h_res},
      {"d_x_next", &a.d_x_next},
      {"d_alpha", &a.d_alpha},
      {"d_bias", &a.d_bias},
  };
  for (const auto& argument : of_gates) c->absent(argument.name, *argument.tensor, partial, reason);
  const bool head = a.kind == GateKind::kHead;
  c->absent("d_h_post", a.d_h_post, head, "a head has no post gates");
  c->absent("d_h_res", a.d_h_res, head, "a head has no res gates");
  c->absent("d_x_next", a.d_x_next, head, "a head does not mix streams");
  c->absent("d_x_post", a.d_x_post, a.d_x_next.present(), "d_x_next stands for the same term");
  c->absent("d_norm_weight", a.d_norm_weight, !a.params.norm_weight.present(),
            "norm_weight is absent");
}

// A gradient has its parameter's type or that of the accumulation, f32 (f64 beside f64); the latter
// alone when it is added to what is there, since a narrower type would lose small addends.
DTypes gradient_types(const Tensor& parameter, DType wide, bool accumulate) {
  return accumulate ? only(wide) : only(wide) | only(parameter.dtype);
}

}  // namespace

Status check(const PreBackwardArgs& args) {
  MHC_RETURN_IF_ERROR(check_spec(args.operation, args.spec, args.kind));
  Checker c(args.operation);
  const Extent n{"n", args.spec.streams};
  if (!c.input("x", args.x, {free_extent("T", 0), n, free_extent("D", 1)}, kAnyFloat,
               Layout::kRows)) {
    return c.status();
  }
  const GateLayout layout = gate_layout(args.spec, args.kind);
  const Extent t{"T", args.x.shape[0]};
  const Extent d{"D", args.x.shape[2]};
  const Extent m{"m", layout.coefficients()};
  const DTypes activation = only(args.x.dtype);
  const DType wide = gate_type(args.x.dtype);
  const DTypes gate = only(wide);
  const DTypes parameter = parameter_types(args.x.dtype);
  const Params& p = args.params;

  const bool partial = args.d_q.present() || args.d_sum_squares.present();
  check_mode(&c, args, partial);
  check_phi(&c, p, layout, d.size, parameter, true);
  check_gate_params(&c, p.alpha, p.bias, layout, parameter, !partial);
  if (!partial) {
    c.input("z", args.z, {t, m}, gate);
    c.input("inv_rms", args.inv_rms, {t}, gate);
  }
  const char* du = args.kind == GateKind::kHead ? "d_out" : "d_layer_input";
  c.optional_input(du, args.d_layer_input, {t, d}, activation, Layout::kRows);
  c.optional_input("d_h_pre", args.d_h_pre, {t, n}, gate);
  c.optional_input("d_h_post", args.d_h_post, {t, n}, gate);
  c.optional_input("d_h_res", args.d_h_res, {t, n, n}, gate);
  c.optional_input("d_x_next", args.d_x_next, {t, n, d}, activation, Layout::kRows);
  c.optional_input("d_x_post", args.d_x_post, {t, n, d}, activation, Layout::kRows);
  c.optional_input("d_q", args.d_q, {t, m}, gate);
  c.optional_input("d_sum_squares", args.d_sum_squares, {t}, gate);

  const bool add = args.accumulate;
  c.optional_output("d_x", args.d_x, {t, n, d}, activation, Layout::kRows);
  c.optional_output("d_phi", args.d_phi, {m, n, d}, gradient_types(p.phi, wide, add));
  c.optional_output("d_alpha", args.d_alpha, {{"groups", layout.groups()}},
                    gradient_types(p.alpha, wide, add));
  c.optional_output("d_bias", args.d_bias, {m}, gradient_types(p.bias, wide, add));
  c.optional_output("d_norm_weight", args.d_norm_weight, {n, d},
                    gradient_types(p.norm_weight, wide, add));
  c.memory("workspace", args.workspace.data, args.workspace.bytes, true);
  c.allow_alias("d_x", "d_x_next");
  c.allow_alias("d_x", "d_x_post");
  return c.finish();
}

}  // namespace mhc
