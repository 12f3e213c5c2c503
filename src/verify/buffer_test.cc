#include "verify/buffer.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mhc::verify {
namespace {

class Placed : public testing::TestWithParam<Placement> {};

TEST_P(Placed, EverythingIsNanAndUndamagedAtFirst) {
  const Buffer b(DType::kBF16, {3, 2, 5}, GetParam(), {2, 3});
  EXPECT_EQ(b.damage(), "");
  for (const double v : widen(b)) EXPECT_TRUE(std::isnan(v));
}

TEST_P(Placed, WritingElementsIsNoDamage) {
  const Buffer b(DType::kF32, {3, 2, 5}, GetParam(), {2, 3});
  for_each_index(b, [&](int64_t i, int64_t j, int64_t k) { b.tensor().store(1, i, j, k); });
  EXPECT_EQ(b.damage(), "");
}

TEST_P(Placed, WritingBeforeIsFound) {
  const Buffer b(DType::kF32, {4}, GetParam());
  b.tensor().store(1, -1);
  EXPECT_NE(b.damage(), "");
}

TEST_P(Placed, WritingBetweenRowsAndPlanesIsFound) {
  for (const int64_t offset : {5, 6, 14, 15, 16}) {
    const Buffer b(DType::kF16, {2, 2, 5}, GetParam(), {2, 3});
    b.tensor().at<uint16_t>(0)[offset] = 0;
    EXPECT_NE(b.damage(), "") << offset;
  }
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Placed,
                         testing::Values(Placement::kAligned, Placement::kShifted,
                                         Placement::kPageEnd));

TEST(Buffer, WritingBehindIsFound) {
  const Buffer b(DType::kF32, {4}, Placement::kShifted);
  b.tensor().store(1, 4);
  EXPECT_NE(b.damage(), "");
}

TEST(BufferDeathTest, PageEndCannotBeReadPast) {
  const Buffer b(DType::kF32, {4}, Placement::kPageEnd);
  volatile float sink = 0;
  EXPECT_DEATH(sink = b.tensor().at<float>(0)[4], "");
  (void)sink;
}

TEST(Buffer, Alignment) {
  const auto address = [](const Buffer& b) { return reinterpret_cast<uintptr_t>(b.tensor().data); };
  EXPECT_EQ(address(Buffer(DType::kBF16, {7})) % 64, 0u);
  EXPECT_EQ(address(Buffer(DType::kBF16, {7}, Placement::kShifted)) % 64, 2u);
}

TEST(Buffer, NoElements) {
  const Buffer b(DType::kF32, {0, 4});
  EXPECT_EQ(b.damage(), "");
  EXPECT_TRUE(widen(b).empty());
}

TEST(TokensOf, SlicesTheFirstIndex) {
  const Buffer b(DType::kF32, {5, 2}, Placement::kAligned, {1, 0});
  for_each_index(b, [&](int64_t i, int64_t j, int64_t) {
    b.tensor().store(static_cast<double>(10 * i + j), i, j);
  });
  EXPECT_EQ(widen(tokens_of(b, 3, 2)), (std::vector<double>{30, 31, 40, 41}));
}

}  // namespace
}  // namespace mhc::verify
