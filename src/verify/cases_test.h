#pragma once
// For table-driven tests: runs cases on every instruction set that is there and reports the first
// failures.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "verify/case_lists.h"
#include "verify/run_case.h"

namespace mhc::verify {

#ifdef MHC_SMALL_TESTS
inline constexpr bool kSmallTests = true;
#else
inline constexpr bool kSmallTests = false;
#endif

// Every case on every row of its table that this machine has.
inline void expect_all_right(const std::vector<Case>& cases) {
  EXPECT_EQ(missing_isas(), "") << "MHC_REQUIRE names instruction sets that this machine lacks";
  ASSERT_FALSE(cases.empty());
  int32_t failures = 0;
  for (const Case& c : cases) {
    CaseRunner runner(c);
    std::string last;
    for (const Isa isa : available_isas()) {
      const Runtime runtime = runtime_of(isa);
      const std::string row = expected_row(c, runtime).name;
      if (isa != Isa::kScalar && row == last) continue;  // the table has no row of its own for it
      last = row;
      const CaseResult result = runner.run(runtime);
      EXPECT_TRUE(result.ok()) << result.problem;
      if (!result.ok() && ++failures >= 10) FAIL() << "and so on";
    }
  }
}

// The cases of one operation in slices, so that they spread over processes.
inline constexpr int32_t kCaseSlices = 6;

class SlicedCases : public testing::TestWithParam<int32_t> {
 protected:
  void expect_options(Op op) { expect_slice(option_cases(op, kSmallTests ? 31 : 1)); }
  void expect_sizes(Op op) { expect_slice(size_cases(op, kSmallTests ? 3e5 : 1e8)); }

 private:
  void expect_slice(const std::vector<Case>& all) {
    std::vector<Case> own;
    for (size_t i = static_cast<size_t>(GetParam()); i < all.size(); i += kCaseSlices)
      own.push_back(all[i]);
    expect_all_right(own);
  }
};

}  // namespace mhc::verify
