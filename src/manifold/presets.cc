#include "manifold/presets.h"

#include <cstring>

#include "manifold/permutation.h"

namespace mhc {
namespace {

constexpr Spec hf_deepseek_v4() {
  Spec s;
  s.h_post_precision = GatePrecision::kActivation;
  s.h_res_precision = GatePrecision::kActivation;
  return s;
}

constexpr Spec maxtext_lite() {
  Spec s;
  s.manifold = Permutation::id;
  s.norm_eps = 1e-5;
  s.phi_precision = Precision::kBFloat16;
  s.h_res_precision = GatePrecision::kActivation;
  return s;
}

constexpr Spec maxtext_sinkhorn() {
  Spec s;
  s.norm_eps = 1e-5;
  return s;
}

constexpr Spec liger() {
  Spec s;
  s.matrix_order = MatrixOrder::kOutputInput;
  s.pre_eps = 0;
  return s;
}

constexpr Preset kPresets[] = {
    {"deepseek_v4", Spec{}},
    {"hf_deepseek_v4", hf_deepseek_v4()},
    {"maxtext_lite", maxtext_lite()},
    {"maxtext_sinkhorn", maxtext_sinkhorn()},
    {"liger", liger()},
};
constexpr int32_t kCount = sizeof(kPresets) / sizeof(kPresets[0]);

}  // namespace

const Preset* find_preset(const char* name) {
  for (const Preset& p : kPresets) {
    if (name != nullptr && std::strcmp(p.name, name) == 0) return &p;
  }
  return nullptr;
}

const Preset* preset_at(int32_t index) {
  return index >= 0 && index < kCount ? &kPresets[index] : nullptr;
}

}  // namespace mhc
