#include "verify/site.h"

#include <gtest/gtest.h>

#include <cmath>

#include "manifold/presets.h"
#include "verify/cases_test.h"

namespace mhc::verify {
namespace {

class Sites : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override { ASSERT_EQ(missing_isas(), ""); }
  void expect_right(const SiteCase& c) {
    if (!is_available(GetParam())) return;
    const SiteResult result = check_site(c, runtime_of(GetParam()));
    ASSERT_EQ(result.problem, "");
    ASSERT_EQ(result.tensors.size(), SiteResult::kPublished + 1);
    for (const Comparison& t : result.tensors) {
      EXPECT_TRUE(t.ok()) << t.first_wrong;
      EXPECT_GT(t.cosine(), 0.999) << t.name;
      // Rounding to nearest has no direction; truncation would show as a mean far from zero.
      if (t.elements > 1000) {
        EXPECT_LT(std::fabs(t.mean_signed_share()), 0.1) << t.name;
      }
    }
  }
};

TEST_P(Sites, EveryTypeAndManifold) {
  for (const DType dtype : {DType::kBF16, DType::kF32, DType::kF16}) {
    for (int32_t i = 0; manifold_at(i) != nullptr; ++i) {
      SiteCase c;
      c.dims = {kSmallTests ? 21 : 150, 4, 515};
      c.dtype = dtype;
      c.spec.manifold = manifold_at(i)->id;
      expect_right(c);
    }
  }
}

TEST_P(Sites, Presets) {
  for (int32_t i = 0; preset_at(i) != nullptr; ++i) {
    SiteCase c;
    c.spec = preset_at(i)->spec;
    c.dims = {65, c.spec.streams, 130};
    expect_right(c);
  }
}

TEST_P(Sites, ReducedPrecisions) {
  SiteCase c;
  c.dims = {65, 4, 130};
  c.spec.phi_precision = c.spec.gradient_precision = Precision::kBFloat16;
  c.spec.h_pre_precision = c.spec.h_post_precision = c.spec.h_res_precision =
      GatePrecision::kActivation;
  c.param_dtype = DType::kBF16;
  expect_right(c);
  c.spec.phi_precision = Precision::kFloat32;
  expect_right(c);
}

INSTANTIATE_TEST_SUITE_P(Isas, Sites,
                         testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

TEST(SiteResult, AnEmptyOneIsNotFine) { EXPECT_FALSE(SiteResult().ok()); }

TEST(SiteResult, ARefusedCallIsAProblem) {
  SiteCase c;
  c.dims = {3, 6, 8};
  c.spec.manifold = find_manifold("permutation")->id;
  const SiteResult result = check_site(c, runtime_of(Isa::kScalar));
  EXPECT_NE(result.problem, "");
  EXPECT_FALSE(result.ok());
}

}  // namespace
}  // namespace mhc::verify
