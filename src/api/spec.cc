// Specs, presets and manifolds by name.

#include "api/call.h"
#include "base/text.h"
#include "manifold/list.h"
#include "manifold/presets.h"

namespace mhc::api {
namespace {

static_assert(MHC_SINKHORN == Sinkhorn::id && MHC_PERMUTATION == Permutation::id &&
              MHC_UNCONSTRAINED == Unconstrained::id && MHC_IDENTITY == Identity::id);

mhc_spec to_c(const Spec& s) {
  mhc_spec c{};
  c.size = sizeof(mhc_spec);
  c.streams = s.streams;
  c.manifold = s.manifold;
  c.iterations = s.manifold_options.iterations;
  c.form = s.manifold_options.form;
  c.matrix_order = static_cast<int32_t>(s.matrix_order);
  c.eps = s.manifold_options.eps;
  c.norm_eps = s.norm_eps;
  c.pre_eps = s.pre_eps;
  c.post_mult = s.post_mult;
  c.norm_form = static_cast<int32_t>(s.norm_form);
  c.phi_precision = static_cast<int32_t>(s.phi_precision);
  c.gradient_precision = static_cast<int32_t>(s.gradient_precision);
  c.h_pre_precision = static_cast<int32_t>(s.h_pre_precision);
  c.h_post_precision = static_cast<int32_t>(s.h_post_precision);
  c.h_res_precision = static_cast<int32_t>(s.h_res_precision);
  return c;
}

// "<operation>: name: expected a, b or c, got "x"", name_at(i) null past the end.
template <class F>
Status unknown_name(const char* operation, const char* got, const F& name_at) {
  Text<250> known;
  for (int32_t i = 0; const char* name = name_at(i); ++i) {
    known.add("%s%s", i == 0 ? "" : name_at(i + 1) == nullptr ? " or " : ", ", name);
  }
  return Status::error(StatusCode::kInvalidArgument, "%s: name: expected %s, got \"%.80s\"",
                       operation, known.c_str(), got);
}

const char* manifold_name_at(int32_t index) {
  const ManifoldInfo* m = manifold_at(index);
  return m == nullptr ? nullptr : m->name;
}

}  // namespace
}  // namespace mhc::api

using namespace mhc::api;
using mhc::Status;

extern "C" {

const char* mhc_preset_name(int32_t index) {
  const mhc::Preset* preset = mhc::preset_at(index);
  return preset == nullptr ? nullptr : preset->name;
}

mhc_status mhc_spec_preset(const char* name, mhc_spec* spec) {
  constexpr const char* kOperation = "spec_preset";
  return guarded(kOperation, [&]() -> Status {
    if (name == nullptr) return null_argument(kOperation, "name");
    if (spec == nullptr) return null_argument(kOperation, "spec");
    const mhc::Preset* preset = mhc::find_preset(name);
    if (preset == nullptr) return unknown_name(kOperation, name, mhc_preset_name);
    *spec = to_c(preset->spec);
    return {};
  });
}

mhc_status mhc_spec_logits(const mhc_spec* spec, int64_t* logits) {
  constexpr const char* kOperation = "spec_logits";
  return guarded(kOperation, [&]() -> Status {
    if (logits == nullptr) return null_argument(kOperation, "logits");
    mhc::Spec s;
    MHC_RETURN_IF_ERROR(to_spec(kOperation, spec, &s));
    MHC_RETURN_IF_ERROR(mhc::check_spec(kOperation, s, mhc::GateKind::kSite));
    *logits = mhc::gate_layout(s, mhc::GateKind::kSite).res;
    return {};
  });
}

mhc_status mhc_spec_coefficients(const mhc_spec* spec, mhc_kind kind, int64_t* coefficients) {
  constexpr const char* kOperation = "spec_coefficients";
  return guarded(kOperation, [&]() -> Status {
    if (coefficients == nullptr) return null_argument(kOperation, "coefficients");
    mhc::Spec s;
    MHC_RETURN_IF_ERROR(to_spec(kOperation, spec, &s));
    const mhc::GateKind k = static_cast<mhc::GateKind>(kind);
    MHC_RETURN_IF_ERROR(mhc::check_spec(kOperation, s, k));
    *coefficients = mhc::gate_layout(s, k).coefficients();
    return {};
  });
}

mhc_status mhc_manifold_from_name(const char* name, mhc_manifold* manifold) {
  constexpr const char* kOperation = "manifold_from_name";
  return guarded(kOperation, [&]() -> Status {
    if (name == nullptr) return null_argument(kOperation, "name");
    if (manifold == nullptr) return null_argument(kOperation, "manifold");
    const mhc::ManifoldInfo* m = mhc::find_manifold(name);
    if (m == nullptr) return unknown_name(kOperation, name, manifold_name_at);
    *manifold = m->id;
    return {};
  });
}

const char* mhc_manifold_name(mhc_manifold manifold) {
  const mhc::ManifoldInfo* m = mhc::find_manifold(manifold);
  return m == nullptr ? nullptr : m->name;
}

mhc_manifold mhc_manifold_at(int32_t index) {
  const mhc::ManifoldInfo* m = mhc::manifold_at(index);
  return m == nullptr ? -1 : m->id;
}

}  // extern "C"
