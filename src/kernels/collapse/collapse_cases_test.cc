#include "verify/cases_test.h"

namespace mhc::verify {
namespace {

class CollapseCases : public SlicedCases {};

TEST_P(CollapseCases, EveryOption) { expect_options(Op::kCollapse); }
TEST_P(CollapseCases, EverySize) { expect_sizes(Op::kCollapse); }

INSTANTIATE_TEST_SUITE_P(Slice, CollapseCases, testing::Range(0, kCaseSlices));

}  // namespace
}  // namespace mhc::verify
