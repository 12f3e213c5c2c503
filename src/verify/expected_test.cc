#include "verify/expected.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "verify/buffer.h"

namespace mhc::verify {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

bool accepts(DType type, double got, double value, double bound) {
  const Buffer b(type, {1});
  b.tensor().store(got, 0);
  Expected want("v", {1});
  want.value[0] = value;
  want.bound[0] = bound;
  return compare(b, want).ok();
}

TEST(Compare, WithinAndOutside) {
  EXPECT_TRUE(accepts(DType::kF32, 1.0, 1.0, 0));
  EXPECT_TRUE(accepts(DType::kF32, 1.5, 1.0, 0.5));
  EXPECT_FALSE(accepts(DType::kF32, 1.5, 1.0, 0.49));
  EXPECT_FALSE(accepts(DType::kF32, 0.5, 1.0, 0.49));
}

// 1 + 2^-8 is half way between two bf16: either neighbour is right for a value known to within
// 2^-20, no other.
TEST(Compare, OneRoundingOfTheOutput) {
  EXPECT_TRUE(accepts(DType::kBF16, 1.0, 1 + 0x1p-8, 0x1p-20));
  EXPECT_TRUE(accepts(DType::kBF16, 1 + 0x1p-7, 1 + 0x1p-8, 0x1p-20));
  EXPECT_FALSE(accepts(DType::kBF16, 1 + 0x1p-6, 1 + 0x1p-8, 0x1p-20));
  EXPECT_FALSE(accepts(DType::kBF16, 1 + 0x1p-7, 1 + 0x1p-9, 0x1p-20));
}

TEST(Compare, NanIsNeverFineUnlessWanted) {
  EXPECT_FALSE(accepts(DType::kF32, kNan, 1, 1e9));
  EXPECT_FALSE(accepts(DType::kF32, 1, kNan, 1e9));
  EXPECT_TRUE(accepts(DType::kF32, kNan, kNan, kNan));
  EXPECT_FALSE(accepts(DType::kF32, 1, 1, kNan));
}

TEST(Compare, Overflow) {
  EXPECT_TRUE(accepts(DType::kF16, kInf, 70000, 1));
  EXPECT_FALSE(accepts(DType::kF16, 65504, 70000, 1));
  EXPECT_FALSE(accepts(DType::kF16, -kInf, 70000, 1));
  EXPECT_TRUE(accepts(DType::kF32, kInf, kInf, 0));
  EXPECT_FALSE(accepts(DType::kF32, 3e38, kInf, 0));
}

TEST(Compare, PoisonIsWrong) {
  const Buffer b(DType::kBF16, {2, 3});
  Expected want("v", {2, 3});
  const Comparison c = compare(b, want);
  EXPECT_EQ(c.wrong, 6);
  EXPECT_NE(c.first_wrong.find("v bf16[2, 3] at [0, 0]"), std::string::npos) << c.first_wrong;
}

TEST(Compare, WrongSize) {
  const Buffer b(DType::kF32, {2});
  EXPECT_FALSE(compare(b, Expected("v", {3})).ok());
}

TEST(Compare, Statistics) {
  const Buffer b(DType::kF32, {2});
  b.tensor().store(1.5, 0);
  b.tensor().store(0, 1);
  Expected want("v", {2});
  want.value = {1, 0};
  want.bound = {1, 1};
  const Comparison c = compare(b, want);
  EXPECT_DOUBLE_EQ(c.largest_error, 0.5);
  EXPECT_DOUBLE_EQ(c.largest_share, 0.5);
  EXPECT_DOUBLE_EQ(c.cosine(), 1);
  EXPECT_DOUBLE_EQ(c.mean_signed_share(), 0.25);
}

}  // namespace
}  // namespace mhc::verify
