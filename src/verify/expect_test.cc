// The expectations against the definitions: two ways to the same numbers, and the bounds' power to
// tell right from wrong.

#include "verify/expect.h"

#include <gtest/gtest.h>

#include <cmath>

#include "verify/case_lists.h"
#include "verify/problem.h"

namespace mhc::verify {
namespace {

class EveryOperation : public testing::TestWithParam<int32_t> {
 protected:
  Op op() const { return static_cast<Op>(GetParam()); }
};

// Double against double: nothing but the rounding to the output's type may differ.
TEST_P(EveryOperation, DefinitionAndExpectationAgree) {
  const std::vector<Case> cases = option_cases(op(), 17);
  ASSERT_GT(cases.size(), 40u);
  for (const Case& c : cases) {
    const auto problem = Problem::make(c);
    std::vector<Expected> expected = problem->expect(false);
    problem->run_reference();
    const std::vector<Output> outputs = problem->outputs();
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      Expected& e = expected[i];
      double largest = 0;
      for (const double v : e.value) largest = std::max(largest, std::fabs(v));
      for (double& b : e.bound) b = 1e-12 * largest;
      const Comparison k = compare(outputs[i].tensor, e);
      EXPECT_TRUE(k.ok()) << describe(c) << "\n" << k.first_wrong;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryOperation, testing::Range(0, kOps), [](const auto& test) {
  return std::string(name_of(static_cast<Op>(test.param)));
});

}  // namespace
}  // namespace mhc::verify
