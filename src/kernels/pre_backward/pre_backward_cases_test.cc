#include "verify/cases_test.h"

namespace mhc::verify {
namespace {

class PreBackwardCases : public SlicedCases {};

TEST_P(PreBackwardCases, EveryOption) { expect_options(Op::kPreBackward); }
TEST_P(PreBackwardCases, EverySize) { expect_sizes(Op::kPreBackward); }

INSTANTIATE_TEST_SUITE_P(Slice, PreBackwardCases, testing::Range(0, kCaseSlices));

}  // namespace
}  // namespace mhc::verify
