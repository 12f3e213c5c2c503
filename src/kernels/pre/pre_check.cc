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
  // f64 goes through the definition, which knows no packed form.
  const bool reads_phi = args.packed_phi == nullptr || args.x.dtype == DType::kF64;
  check_phi(&c, args.params, layout, d.size, parameter, reads_phi);
  check_gate_params(&c, args.params.alpha, args.params.bias, layout, parameter, gates_asked);

  const bool head = args.kind == GateKind::kHead;
  c.absent("h_post", args.h_post, head, "a head has no post gates");
  c.absent("h_res", args.h_res, head, "a head has no res gates");
  c.optional_output(head ? "out" : "layer_input", args.layer_input, {t, d}, only(args.x.dtype),
                    Layout::kRows);
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

Status check_pack_phi(const Spec& spec, GateKind kind, const Params& params, int64_t embedding,
                      DType activation, const void* packed, size_t packed_bytes,
                      const Runtime& runtime) {
  constexpr const char* kOperation = "pack_phi";
  MHC_RETURN_IF_ERROR(check_spec(kOperation, spec, kind));
  Checker c(kOperation);
  if (!is_valid(activation)) {
    c.fail(StatusCode::kInvalidArgument, "activation", "expected f32, bf16, f16 or f64, got %d",
           static_cast<int32_t>(activation));
    return c.status();
  }
  if (!c.range("embedding", embedding, 1, INT64_MAX / kMaxStreams)) return c.status();
  check_phi(&c, params, gate_layout(spec, kind), embedding, parameter_types(activation), true);
  c.memory("packed", packed, packed_bytes, true);
  MHC_RETURN_IF_ERROR(c.finish());
  const size_t needed = packed_phi_bytes(spec, kind, embedding, activation, runtime);
  if (needed > 0 && (packed == nullptr || packed_bytes < needed)) {
    return Status::error(StatusCode::kInvalidArgument,
                         "%s: packed: expected at least %zu bytes, got %zu%s", kOperation, needed,
                         packed_bytes, packed == nullptr ? " (null)" : "");
  }
  return {};
}

}  // namespace mhc
