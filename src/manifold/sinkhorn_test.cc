// Known values of this form of Sinkhorn, its column sums, and the gradient on peaked logits.

#include "manifold/sinkhorn.h"

#include <gtest/gtest.h>

#include <vector>

#include "manifold/manifold_test.h"

namespace mhc {
namespace {

using namespace manifold_test;  // NOLINT(google-build-using-namespace)

TEST(SinkhornTest, GradientIsRightOnPeakedLogits) {
  verify::Random random(verify::seed_of("GradientIsRightOnPeakedLogits"));
  for (const int64_t n : {2, 3, 4, 8, 16}) {
    for (const double peak : {10.0, 20.0, 40.0}) {
      SCOPED_TRACE(testing::Message() << "n " << n << ", peak " << peak);
      std::vector<double> logits(static_cast<size_t>(n * n), 0.0);
      for (int64_t i = 0; i < n; ++i) logits[static_cast<size_t>(i * (n + 1))] = peak;
      expect_accurate_gradient<Sinkhorn>(n, logits, floats(&random, n * n, 1.0));
    }
  }
}

// Tells the published forms apart: others give .21863 or .26920 here, and .30069 when transposed.
TEST(SinkhornTest, KnownValues) {
  const std::vector<double> logits = {0, 1, 2, 3, 1, 0, 0, 0, 0, 0, 2, 0, 3, 0, 0, 1};
  const auto h = forward_of<Sinkhorn>(4, {1, 0, 0.1}, logits);
  EXPECT_NEAR(h[0 * 4 + 1], .208264, 5e-7);
  EXPECT_NEAR(h[1 * 4 + 0], .300695, 5e-7);
  // Equal logits, in full: (1/4 + .1) / (4 (1/4 + .1) + .1)
  for (const double v : forward_of<Sinkhorn>(4, {1, 0, 0.1}, std::vector<double>(16, 7.0))) {
    EXPECT_NEAR(v, .35 / 1.5, 1e-15);
  }
}

// Each column ends with a sum of 1 - eps/d, d its last divisor, whatever the logits. Told from
// outside: with s the sum before the last division, s/(s + eps), and iterating once more divides
// the rows by theirs first.
TEST(SinkhornTest, ColumnsSumToTheirExactValue) {
  verify::Random random(verify::seed_of("ColumnsSumToTheirExactValue"));
  for (const int64_t n : {1, 2, 4, 16}) {
    for (const int32_t iterations : {1, 2, 20}) {
      for (const double eps : {1e-6, 0.1}) {
        const std::vector<double> logits = floats(&random, n * n, 8.0);
        const auto before = forward_of<Sinkhorn>(n, {iterations, 0, eps}, logits);
        const auto after = forward_of<Sinkhorn>(n, {iterations + 1, 0, eps}, logits);
        for (int64_t j = 0; j < n; ++j) {
          double s = 0, sum = 0;
          for (int64_t i = 0; i < n; ++i) {
            double row = eps;
            for (int64_t k = 0; k < n; ++k) row += before[static_cast<size_t>(i * n + k)];
            s += before[static_cast<size_t>(i * n + j)] / row;
            sum += after[static_cast<size_t>(i * n + j)];
          }
          EXPECT_NEAR(sum, s / (s + eps), 1e-13);
        }
      }
    }
  }
}

}  // namespace
}  // namespace mhc
