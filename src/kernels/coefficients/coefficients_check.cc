#include "kernels/coefficients/coefficients.h"
#include "kernels/common/check_args.h"

namespace mhc {
namespace {

void check_embedding_total(Checker* c, int64_t embedding_total, int64_t streams) {
  c->range("embedding_total", embedding_total, 1, INT64_MAX / streams);
}

}  // namespace

Status check(const CoefficientsArgs& args) {
  constexpr const char* kOperation = "coefficients_from_partials";
  MHC_RETURN_IF_ERROR(check_spec(kOperation, args.spec, args.kind));
  Checker c(kOperation);
  const GateLayout layout = gate_layout(args.spec, args.kind);
  const Extent n{"n", args.spec.streams};
  const Extent m{"m", layout.coefficients()};
  if (!c.input("q", args.q, {free_extent("T", 0), m}, kF32OrF64)) return c.status();
  const Extent t{"T", args.q.shape[0]};
  const DTypes gate = only(args.q.dtype);
  check_embedding_total(&c, args.embedding_total, n.size);
  c.input("sum_squares", args.sum_squares, {t}, gate);
  check_gate_params(&c, args.alpha, args.bias, layout, parameter_types(args.q.dtype), true);

  const bool head = args.kind == GateKind::kHead;
  c.absent("h_post", args.h_post, head, "a head has no post gates");
  c.absent("h_res", args.h_res, head, "a head has no res gates");
  c.optional_output("z", args.z, {t, m}, gate);
  c.optional_output("inv_rms", args.inv_rms, {t}, gate);
  c.optional_output("h_pre", args.h_pre, {t, n}, gate);
  c.optional_output("h_post", args.h_post, {t, n}, gate);
  c.optional_output("h_res", args.h_res, {t, n, n}, gate);
  c.memory("workspace", args.workspace.data, args.workspace.bytes, true);
  return c.finish();
}

Status check(const CoefficientsBackwardArgs& args) {
  constexpr const char* kOperation = "coefficients_from_partials_backward";
  MHC_RETURN_IF_ERROR(check_spec(kOperation, args.spec, args.kind));
  Checker c(kOperation);
  const GateLayout layout = gate_layout(args.spec, args.kind);
  const Extent n{"n", args.spec.streams};
  const Extent m{"m", layout.coefficients()};
  if (!c.input("z", args.z, {free_extent("T", 0), m}, kF32OrF64)) return c.status();
  const Extent t{"T", args.z.shape[0]};
  const DType wide = args.z.dtype;
  const DTypes gate = only(wide);
  check_embedding_total(&c, args.embedding_total, n.size);
  c.input("inv_rms", args.inv_rms, {t}, gate);
  c.optional_input("sum_squares", args.sum_squares, {t}, gate);
  c.needed("sum_squares", args.sum_squares,
           args.spec.norm_form == NormForm::kOutside && args.d_sum_squares.present(),
           "norm_form is outside and d_sum_squares is asked for");
  check_gate_params(&c, args.alpha, args.bias, layout, parameter_types(wide), true);

  const bool head = args.kind == GateKind::kHead;
  c.absent("d_h_post", args.d_h_post, head, "a head has no post gates");
  c.absent("d_h_res", args.d_h_res, head, "a head has no res gates");
  c.optional_input("d_h_pre", args.d_h_pre, {t, n}, gate);
  c.optional_input("d_h_post", args.d_h_post, {t, n}, gate);
  c.optional_input("d_h_res", args.d_h_res, {t, n, n}, gate);

  const DTypes of_alpha = args.accumulate ? gate : gate | only(args.alpha.dtype);
  const DTypes of_bias = args.accumulate ? gate : gate | only(args.bias.dtype);
  c.optional_output("d_q", args.d_q, {t, m}, gate);
  c.optional_output("d_sum_squares", args.d_sum_squares, {t}, gate);
  c.optional_output("d_alpha", args.d_alpha, {{"groups", layout.groups()}}, of_alpha);
  c.optional_output("d_bias", args.d_bias, {m}, of_bias);
  c.memory("workspace", args.workspace.data, args.workspace.bytes, true);
  return c.finish();
}

}  // namespace mhc
