#include "verify/cases_test.h"

namespace mhc::verify {
namespace {

class CoefficientsCases : public SlicedCases {};

TEST_P(CoefficientsCases, EveryOption) { expect_options(Op::kCoefficients); }
TEST_P(CoefficientsCases, EverySize) { expect_sizes(Op::kCoefficients); }
TEST_P(CoefficientsCases, EveryOptionBackward) { expect_options(Op::kCoefficientsBackward); }
TEST_P(CoefficientsCases, EverySizeBackward) { expect_sizes(Op::kCoefficientsBackward); }

INSTANTIATE_TEST_SUITE_P(Slice, CoefficientsCases, testing::Range(0, kCaseSlices));

}  // namespace
}  // namespace mhc::verify
