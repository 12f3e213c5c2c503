#include "verify/pairwise.h"

#include <gtest/gtest.h>

#include <set>

#include "verify/case_lists.h"

namespace mhc::verify {
namespace {

TEST(Pairwise, CoversEveryPairOfLevels) {
  const std::vector<int32_t> levels{5, 3, 2, 4};
  const auto rows = pairwise_cover(levels, 7, [](const Levels&) { return true; });
  EXPECT_LT(rows.size(), 40u);
  for (size_t f = 0; f < levels.size(); ++f) {
    for (size_t g = f + 1; g < levels.size(); ++g) {
      std::set<std::pair<int32_t, int32_t>> pairs;
      for (const Levels& row : rows) pairs.insert({row[f], row[g]});
      EXPECT_EQ(pairs.size(), static_cast<size_t>(levels[f] * levels[g])) << f << " " << g;
    }
  }
}

TEST(Pairwise, LeavesOutWhatIsNotValid) {
  const auto valid = [](const Levels& row) { return row[0] != 1 || row[1] != 1; };
  const auto rows = pairwise_cover({3, 3, 2}, 7, valid);
  for (const Levels& row : rows) EXPECT_TRUE(valid(row));
  EXPECT_GE(rows.size(), 8u);
}

// What every list promises: the sizes where kernels go wrong are in it.
TEST(CaseLists, SizesOfEveryOperation) {
  for (int32_t op = 0; op < kOps; ++op) {
    std::set<int64_t> tokens, streams, embeddings;
    for (const Case& c : size_cases(static_cast<Op>(op), 3e7)) {
      tokens.insert(c.dims.tokens);
      streams.insert(c.dims.streams);
      embeddings.insert(c.dims.embedding);
    }
    // At least: pre_backward has a few sizes beside the cover.
    EXPECT_GE(tokens.size(), 12u) << name_of(static_cast<Op>(op));
    EXPECT_EQ(streams.size(), 9u) << name_of(static_cast<Op>(op));
    EXPECT_GE(embeddings.size(), 10u) << name_of(static_cast<Op>(op));
  }
}

TEST(CaseLists, NoCaseTwice) {
  for (int32_t op = 0; op < kOps; ++op) {
    std::set<std::string> seen;
    for (const Case& c : option_cases(static_cast<Op>(op)))
      EXPECT_TRUE(seen.insert(describe(c)).second) << describe(c);
    EXPECT_GT(seen.size(), 500u) << name_of(static_cast<Op>(op));
  }
}

}  // namespace
}  // namespace mhc::verify
