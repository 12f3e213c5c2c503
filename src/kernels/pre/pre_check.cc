#include "kernels/common/check_args.h"
#include "kernels/pre/pre.h"

namespace mhc {

Status check(const PreArgs& args) {
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
  const DTypes gate = only(gate_type(args.x.dtype));
  const DTypes parameter = parameter_types(args.x.dtype);
  const bool gates_asked = args.layer_input.present() || args.z.present() ||
                           args.inv_rms.present() || args.h_pre.present() ||
                           args.h_post.present() || args.h_res.present();
  check_phi(&c, args.params, layout, d.size, parameter, args.packed_phi == nullptr);
  check_gate_params(&c, args.params.alpha, args.params.bias, layout, parameter, gates_asked);

  const bool head = args.kind == GateKind::kHead;
  c.absent("h_post", args.h_post, head, "a head has no post gates");
  c.absent("h_res", args.h_res, head, "a head has no res gates");
  c.optional_output("layer_input", args.layer_input, {t, d}, only(args.x.dtype), Layout::kRows);
  c.optional_output("z", args.z, {t, m}, gate);
  c.optional_output("inv_rms", args.inv_rms, {t}, gate);
  c.optional_output("h_pre", args.h_pre, {t, n}, gate);
  c.optional_output("h_post", args.h_post, {t, n}, gate);
  c.optional_output("h_res", args.h_res, {t, n, n}, gate);
  c.optional_output("q", args.q, {t, m}, gate);
  c.optional_output("sum_squares", args.sum_squares, {t}, gate);
  c.memory("packed_phi", args.packed_phi, args.packed_phi_bytes, false);
  c.memory("workspace", args.workspace.data, args.workspace.bytes, true);
  return c.finish();
}

}  // namespace mhc
