// The order of the permutations, and the gradient where one of them dominates.

#include "manifold/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "manifold/manifold_test.h"

namespace mhc {
namespace {

using namespace manifold_test;  // NOLINT(google-build-using-namespace)

TEST(PermutationTest, LogitsAreInLexicographicOrder) {
  for (int64_t n = 1; n <= Permutation::max_streams; ++n) {
    std::vector<int64_t> image(static_cast<size_t>(n));
    std::iota(image.begin(), image.end(), 0);
    int64_t p = 0;
    do {
      std::vector<double> logits(static_cast<size_t>(Permutation::logits(n)), 0.0);
      logits[static_cast<size_t>(p)] = 1000;  // exp(-1000) is zero
      const auto h = forward_of<Permutation>(n, {}, logits);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          EXPECT_EQ(h[static_cast<size_t>(i * n + j)], image[static_cast<size_t>(i)] == j ? 1 : 0)
              << "permutation " << p << " of " << n;
        }
      }
      ++p;
    } while (std::next_permutation(image.begin(), image.end()));
    EXPECT_EQ(p, Permutation::logits(n));
  }
}

// The usual softmax backward loses every digit of f32 at a lead of 20.
TEST(PermutationTest, GradientIsRightWhereOneLeads) {
  verify::Random random(verify::seed_of("GradientIsRightWhereOneLeads"));
  for (int64_t n = 2; n <= Permutation::max_streams; ++n) {
    for (const double lead : {8.0, 12.0, 16.0, 20.0}) {
      for (const bool first : {true, false}) {
        SCOPED_TRACE(testing::Message() << "n " << n << ", lead " << lead << ", first " << first);
        std::vector<double> logits = floats(&random, Permutation::logits(n), 0.125);
        (first ? logits.front() : logits.back()) = lead;
        expect_accurate_gradient<Permutation>(n, logits, floats(&random, n * n, 1.0));
      }
    }
  }
}

}  // namespace
}  // namespace mhc
