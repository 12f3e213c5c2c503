#include "verify/cases_test.h"

namespace mhc::verify {
namespace {

class PostBackwardCases : public SlicedCases {};

TEST_P(PostBackwardCases, EveryOption) { expect_options(Op::kPostBackward); }
TEST_P(PostBackwardCases, EverySize) { expect_sizes(Op::kPostBackward); }

INSTANTIATE_TEST_SUITE_P(Slice, PostBackwardCases, testing::Range(0, kCaseSlices));

}  // namespace
}  // namespace mhc::verify
