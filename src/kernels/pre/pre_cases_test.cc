#include "verify/cases_test.h"

namespace mhc::verify {
namespace {

class PreCases : public SlicedCases {};

TEST_P(PreCases, EveryOption) { expect_options(Op::kPre); }
TEST_P(PreCases, EverySize) { expect_sizes(Op::kPre); }

INSTANTIATE_TEST_SUITE_P(Slice, PreCases, testing::Range(0, kCaseSlices));

}  // namespace
}  // namespace mhc::verify
