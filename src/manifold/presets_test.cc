#include "manifold/presets.h"

#include <gtest/gtest.h>

#include <string>

#include "manifold/permutation.h"
#include "manifold/sinkhorn.h"

namespace mhc {
namespace {

const Spec& spec_of(const char* name) {
  const Preset* preset = find_preset(name);
  EXPECT_NE(preset, nullptr) << name;
  return preset->spec;
}

TEST(Presets, DeepSeekV4) {
  const Spec& s = spec_of("deepseek_v4");
  EXPECT_EQ(s.streams, 4);
  EXPECT_EQ(s.manifold, Sinkhorn::id);
  EXPECT_EQ(s.manifold_options.iterations, 20);
  EXPECT_EQ(s.manifold_options.eps, 1e-6);
  EXPECT_EQ(s.norm_eps, 1e-6);
  EXPECT_EQ(s.pre_eps, 1e-6);
  EXPECT_EQ(s.post_mult, 2);
  EXPECT_EQ(s.matrix_order, MatrixOrder::kInputOutput);
  EXPECT_EQ(s.norm_form, NormForm::kInside);
  EXPECT_EQ(s.phi_precision, Precision::kFloat32);
  EXPECT_EQ(s.gradient_precision, Precision::kFloat32);
  EXPECT_EQ(s.h_pre_precision, GatePrecision::kFloat32);
  EXPECT_EQ(s.h_post_precision, GatePrecision::kFloat32);
  EXPECT_EQ(s.h_res_precision, GatePrecision::kFloat32);
}

TEST(Presets, TheOthersDifferWhereStated) {
  const Spec& hf = spec_of("hf_deepseek_v4");
  EXPECT_EQ(hf.h_pre_precision, GatePrecision::kFloat32);
  EXPECT_EQ(hf.h_post_precision, GatePrecision::kActivation);
  EXPECT_EQ(hf.h_res_precision, GatePrecision::kActivation);
  const Spec& lite = spec_of("maxtext_lite");
  EXPECT_EQ(lite.manifold, Permutation::id);
  EXPECT_EQ(lite.norm_eps, 1e-5);
  EXPECT_EQ(lite.pre_eps, 1e-6);
  EXPECT_EQ(lite.phi_precision, Precision::kBFloat16);
  EXPECT_EQ(lite.h_post_precision, GatePrecision::kFloat32);
  EXPECT_EQ(lite.h_res_precision, GatePrecision::kActivation);
  const Spec& maxtext = spec_of("maxtext_sinkhorn");
  EXPECT_EQ(maxtext.manifold, Sinkhorn::id);
  EXPECT_EQ(maxtext.norm_eps, 1e-5);
  EXPECT_EQ(maxtext.phi_precision, Precision::kFloat32);
  EXPECT_EQ(maxtext.h_res_precision, GatePrecision::kFloat32);
  const Spec& liger = spec_of("liger");
  EXPECT_EQ(liger.matrix_order, MatrixOrder::kOutputInput);
  EXPECT_EQ(liger.pre_eps, 0);
}

TEST(Presets, ListAndNamesAgree) {
  int32_t count = 0;
  for (; const Preset* p = preset_at(count); ++count) EXPECT_EQ(find_preset(p->name), p);
  EXPECT_EQ(count, 5);
  EXPECT_EQ(preset_at(-1), nullptr);
  EXPECT_EQ(find_preset("deepseek"), nullptr);
  EXPECT_EQ(find_preset(nullptr), nullptr);
}

}  // namespace
}  // namespace mhc
