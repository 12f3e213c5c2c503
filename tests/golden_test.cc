// Sites that public implementations computed (tests/golden): same conventions, same numbers.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/isa.h"
#include "golden_bounds.h"
#include "golden_implementation.h"
#include "golden_site.h"
#include "manifold/list.h"

namespace mhc::golden {
namespace {

Spec spec_of(int32_t manifold, int32_t iterations, double eps, double pre_eps, double norm_eps) {
  Spec spec;
  spec.manifold = manifold;
  spec.manifold_options = {iterations, 0, eps};
  spec.pre_eps = pre_eps;
  spec.norm_eps = norm_eps;
  return spec;
}

Site maxtext_kernel() {
  Spec spec = spec_of(Permutation::id, 1, 0, 1e-6, 1e-5);
  spec.phi_precision = Precision::kBFloat16;
  spec.h_res_precision = GatePrecision::kActivation;
  return maxtext_site("maxtext_lite_kernel_bf16_B1_S16_D128", spec);
}

Site hugging_face_bf16() {
  Spec spec = spec_of(Sinkhorn::id, 20, 1e-6, 1e-6, 1e-6);
  spec.h_post_precision = GatePrecision::kActivation;
  spec.h_res_precision = GatePrecision::kActivation;
  return hugging_face_site("hf_deepseek_v4_bf16_n4_it20_eps1e-06_neps1e-06_B1_S6_D64", spec);
}

Site liger() {
  Spec spec = spec_of(Sinkhorn::id, 3, 1e-2, 1e-3, 1e-3);
  spec.matrix_order = MatrixOrder::kOutputInput;
  return liger_site("liger_f32_n4_it3_seps0.01_neps0.001_peps0.001_T5_D20", spec);
}

std::vector<Site> all_sites() {
  return {
      maxtext_kernel(),
      maxtext_site("maxtext_lite_layer_f32_n4_B1_S6_D16",
                   spec_of(Permutation::id, 1, 0, 1e-6, 1e-5)),
      maxtext_site("maxtext_sinkhorn20_layer_f32_n4_B1_S6_D16",
                   spec_of(Sinkhorn::id, 20, 1e-6, 1e-6, 1e-5)),
      maxtext_site("maxtext_sinkhorn5_layer_f32_n3_B1_S5_D10",
                   spec_of(Sinkhorn::id, 5, 1e-6, 1e-6, 1e-5)),
      hugging_face_bf16(),
      hugging_face_site("hf_deepseek_v4_f32_n4_it20_eps1e-06_neps1e-06_B1_S6_D16",
                        spec_of(Sinkhorn::id, 20, 1e-6, 1e-6, 1e-6)),
      hugging_face_site("hf_deepseek_v4_f32_n3_it5_eps0.001_neps0.01_B1_S5_D10",
                        spec_of(Sinkhorn::id, 5, 1e-3, 1e-3, 1e-2)),
      liger(),
  };
}

std::vector<Implementation> all_implementations() {
  std::vector<Implementation> out = {reference_implementation()};
  for (int32_t i = 0; i < kIsas; ++i) {
    const Isa isa = static_cast<Isa>(i);
    if (!is_available(isa)) continue;
    Runtime runtime;
    runtime.ceiling = isa;
    out.push_back(kernel_implementation(name_of(isa), runtime));
  }
  return out;
}

using Bound = std::vector<double>;

// 1e-5 of the tensor's largest value.
Bound single_precision_bound(const Values& want) {
  double largest = 0;
  for (const double v : want) largest = std::max(largest, std::fabs(v));
  return Bound(want.size(), 1e-5 * largest);
}

// d_head_alpha is one number, the sum of d_logit z over all tokens and streams, which may cancel:
// its largest value is then no measure. f32 gets it to some u = 2^-24 of the sum of absolute terms;
// 16 are granted. With one token d_head_bias is d_logit.
double head_alpha_bound(const Site& site) {
  double terms = 0;
  for (int64_t t = 0; t < site.dims.tokens; ++t) {
    const auto token = [&](const Values& v) {
      const int64_t size = static_cast<int64_t>(v.size()) / site.dims.tokens;
      return Values(v.begin() + t * size, v.begin() + (t + 1) * size);
    };
    Site one = site;
    one.dims.tokens = 1;
    one.x = token(site.x);
    one.g_head = token(site.g_head);
    const Results r = run_head(reference_implementation(), one);
    for (size_t c = 0; c < r.at("head_z").size(); ++c) {
      terms += std::fabs(r.at("d_head_bias")[c] * r.at("head_z")[c]);
    }
  }
  return 16 * 0x1p-24 * terms;
}

void expect_close(const std::string& name, const Values& got, const Values& want,
                  const Bound& bound) {
  ASSERT_EQ(got.size(), want.size()) << name;
  ASSERT_EQ(bound.size(), want.size()) << name;
  size_t worst = 0;
  double ratio = -1;
  for (size_t k = 0; k < want.size(); ++k) {
    const double r = std::fabs(got[k] - want[k]) / bound[k];
    if (!(r <= ratio)) {
      ratio = r;
      worst = k;
    }
  }
  EXPECT_LE(ratio, 1) << name << "[" << worst << "]: got " << got[worst] << ", want " << want[worst]
                      << ", bound " << bound[worst];
}

void expect_site(const Implementation& implementation, const Site& site) {
  const bool bf16 = site.activation == DType::kBF16;
  Results got = run_site(implementation, site);
  Results bounds = bf16 ? Bf16Bounds::of_site(site) : Results{};
  if (site.has_head) {
    got.merge(run_head(implementation, site));
    bounds.merge(bf16 ? Bf16Bounds::of_head(site)
                      : Results{{"d_head_alpha", {head_alpha_bound(site)}}});
  }
  for (const auto& [name, want] : site.expected) {
    ASSERT_EQ(got.count(name), 1u) << name;
    // The gates are f32 everywhere, whatever the activations are.
    const auto bound = bounds.find(name);
    expect_close(name, got[name], want,
                 bound == bounds.end() ? single_precision_bound(want) : bound->second);
  }
}

class Golden : public testing::TestWithParam<size_t> {};

TEST_P(Golden, EverySiteAgrees) {
  const Implementation implementation = all_implementations()[GetParam()];
  for (const Site& site : all_sites()) {
    SCOPED_TRACE(implementation.name + ", " + site.name);
    expect_site(implementation, site);
  }
}

double share_of_equal_bits(const Values& a, const Values& b) {
  size_t equal = 0;
  for (size_t k = 0; k < a.size(); ++k) equal += a[k] == b[k] ? 1 : 0;
  return static_cast<double>(equal) / static_cast<double>(a.size());
}

// Where both sides round an f32 value once, the bits are the same unless f32 sums in different
// orders, some 2^-20 apart, straddle one of bf16's boundaries, 2^-8 apart: one case in a few
// thousand. So these say where a rounding is made, which no bound of the size of a rounding can.
TEST_P(Golden, RoundingsAreWhereTheyAreMadeThere) {
  const Implementation implementation = all_implementations()[GetParam()];
  const Site maxtext = maxtext_kernel(), hugging_face = hugging_face_bf16();
  const Results got = run_site(implementation, maxtext);
  for (const char* name : {"layer_input", "x_next", "d_f"}) {
    EXPECT_GE(share_of_equal_bits(got.at(name), maxtext.expected.at(name)), 0.99) << name;
  }
  EXPECT_GE(share_of_equal_bits(run_site(implementation, hugging_face).at("layer_input"),
                                hugging_face.expected.at("layer_input")),
            0.99);
  EXPECT_GE(share_of_equal_bits(run_head(implementation, hugging_face).at("head"),
                                hugging_face.expected.at("head")),
            0.99);
  Site other = maxtext;
  other.spec.h_res_precision = GatePrecision::kFloat32;
  EXPECT_LT(share_of_equal_bits(run_site(implementation, other).at("x_next"),
                                maxtext.expected.at("x_next")),
            0.9);
}

INSTANTIATE_TEST_SUITE_P(Implementations, Golden,
                         testing::Range(size_t{0}, all_implementations().size()),
                         [](const auto& row) { return all_implementations()[row.param].name; });

}  // namespace
}  // namespace mhc::golden
