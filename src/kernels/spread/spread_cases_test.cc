#include "verify/cases_test.h"

namespace mhc::verify {
namespace {

class SpreadCases : public SlicedCases {};

TEST_P(SpreadCases, EveryOption) { expect_options(Op::kSpread); }
TEST_P(SpreadCases, EverySize) { expect_sizes(Op::kSpread); }

INSTANTIATE_TEST_SUITE_P(Slice, SpreadCases, testing::Range(0, kCaseSlices));

}  // namespace
}  // namespace mhc::verify
