#include "verify/cases_test.h"

namespace mhc::verify {
namespace {

class PostCases : public SlicedCases {};

TEST_P(PostCases, EveryOption) { expect_options(Op::kPost); }
TEST_P(PostCases, EverySize) { expect_sizes(Op::kPost); }

INSTANTIATE_TEST_SUITE_P(Slice, PostCases, testing::Range(0, kCaseSlices));

}  // namespace
}  // namespace mhc::verify
