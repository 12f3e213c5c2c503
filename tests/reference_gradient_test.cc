// Every hand-derived backward of the reference is the derivative of its forward: the whole chain of
// a site (pre, a given branch output, post) and the head.

#include "reference_gradient.h"

#include <gtest/gtest.h>

namespace mhc::gradient_test {
namespace {

TEST_F(ReferenceGradient, Site) {
  for_each_problem([&](int32_t manifold, int64_t n, int32_t iterations) {
    for (const MatrixOrder order : {MatrixOrder::kInputOutput, MatrixOrder::kOutputInput}) {
      for (const NormForm form : {NormForm::kInside, NormForm::kOutside}) {
        Case c = make_case(manifold, n, iterations);
        c.spec.matrix_order = order;
        c.spec.norm_form = form;
        expect_site_gradients(c, &random_);
      }
    }
  });
}

// The same rounded values in both directions, and the derivative of a rounding is one.
TEST_F(ReferenceGradient, SiteWithRoundings) {
  for_each_problem([&](int32_t manifold, int64_t n, int32_t) {
    for (int roundings = 1; roundings < 16; ++roundings) {
      Case c = make_case(manifold, n);
      if (roundings & 1) c.spec.phi_precision = Precision::kBFloat16;
      if (roundings & 2) c.spec.h_pre_precision = GatePrecision::kActivation;
      if (roundings & 4) c.spec.h_post_precision = GatePrecision::kActivation;
      if (roundings & 8) c.spec.h_res_precision = GatePrecision::kActivation;
      expect_site_gradients(c, &random_);
    }
  });
}

TEST_F(ReferenceGradient, Head) {
  for (int64_t n = 1; n <= kMaxStreams; ++n) {
    for (const NormForm form : {NormForm::kInside, NormForm::kOutside}) {
      Case c = make_case(Permutation::id, n);  // which no head looks at
      c.kind = GateKind::kHead;
      c.spec.norm_form = form;
      expect_site_gradients(c, &random_);
    }
  }
}

}  // namespace
}  // namespace mhc::gradient_test
