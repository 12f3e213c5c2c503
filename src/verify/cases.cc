#include "verify/cases.h"

#include <cstdio>

#include "base/isa.h"

namespace mhc::verify {

const char* name_of(Op op) {
  constexpr const char* kName[kOps] = {
      "post", "post_backward", "collapse",     "spread",
      "pre",  "pre_backward",  "coefficients", "coefficients_backward"};
  return kName[static_cast<int32_t>(op)];
}

std::string describe(const Case& c) {
  const ManifoldInfo* manifold = find_manifold(c.spec.manifold);
  char text[200];
  std::snprintf(text, sizeof(text), "%s T=%lld n=%lld D=%lld %s params %s %s", name_of(c.op),
                static_cast<long long>(c.dims.tokens), static_cast<long long>(c.dims.streams),
                static_cast<long long>(c.dims.embedding), mhc::name_of(c.dtype),
                mhc::name_of(c.param_dtype), manifold == nullptr ? "?" : manifold->name);
  std::string line = text;
  const auto flag = [&line](bool on, const char* word) {
    if (on) line += std::string(" ") + word;
  };
  const Spec& s = c.spec;
  if (manifold != nullptr && s.manifold == 0)
    line += " iterations=" + std::to_string(s.manifold_options.iterations);
  flag(c.kind == GateKind::kHead, "head");
  flag(s.matrix_order == MatrixOrder::kOutputInput, "output_input");
  flag(s.norm_form == NormForm::kOutside, "norm_outside");
  flag(s.phi_precision == Precision::kBFloat16, "phi_bf16");
  flag(s.gradient_precision == Precision::kBFloat16, "gradient_bf16");
  flag(s.h_pre_precision == GatePrecision::kActivation, "h_pre_activation");
  flag(s.h_post_precision == GatePrecision::kActivation, "h_post_activation");
  flag(s.h_res_precision == GatePrecision::kActivation, "h_res_activation");
  flag(c.norm_weight, "norm_weight");
  flag(c.partial, "partial");
  flag(c.packed, "packed");
  flag(!c.lazy, "eager");
  flag(c.accumulate, "accumulate");
  flag(c.narrow_gradients, "narrow_gradients");
  flag(c.no_cotangents, "no_cotangents");
  flag(c.weightless, "weightless");
  flag(c.in_place, "in_place");
  flag(c.broadcast, "broadcast");
  flag(c.placement == Placement::kShifted, "shifted");
  flag(c.placement == Placement::kPageEnd, "page_end");
  flag(c.padding.row != 0 || c.padding.plane != 0, "padded");
  std::snprintf(text, sizeof(text), " outputs=%x gate_scale=%g peak=%g value_scale=%g seed=%llu",
                c.outputs, c.gate_scale, c.peak, c.value_scale,
                static_cast<unsigned long long>(c.seed));
  return line + text;
}

}  // namespace mhc::verify
