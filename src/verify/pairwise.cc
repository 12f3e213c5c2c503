#include "verify/pairwise.h"

#include <set>
#include <utility>

#include "verify/random.h"

namespace mhc::verify {
namespace {

using Pair =
    std::pair<std::pair<int32_t, int32_t>, std::pair<int32_t, int32_t>>;  // (factor, level) twice

constexpr int32_t kCandidates = 30;

std::set<Pair> all_pairs(const std::vector<int32_t>& levels) {
  std::set<Pair> pairs;
  const int32_t factors = static_cast<int32_t>(levels.size());
  for (int32_t f = 0; f < factors; ++f) {
    for (int32_t g = f + 1; g < factors; ++g) {
      for (int32_t a = 0; a < levels[static_cast<size_t>(f)]; ++a) {
        for (int32_t b = 0; b < levels[static_cast<size_t>(g)]; ++b) pairs.insert({{f, a}, {g, b}});
      }
    }
  }
  return pairs;
}

std::vector<Pair> pairs_of(const Levels& row) {
  std::vector<Pair> pairs;
  const int32_t factors = static_cast<int32_t>(row.size());
  for (int32_t f = 0; f < factors; ++f) {
    for (int32_t g = f + 1; g < factors; ++g) {
      pairs.push_back({{f, row[static_cast<size_t>(f)]}, {g, row[static_cast<size_t>(g)]}});
    }
  }
  return pairs;
}

}  // namespace

std::vector<Levels> pairwise_cover(const std::vector<int32_t>& levels, uint64_t seed,
                                   const std::function<bool(const Levels&)>& valid) {
  Random random(seed);
  std::set<Pair> open = all_pairs(levels);
  std::vector<Levels> rows;
  while (!open.empty()) {
    const Pair wanted = *open.begin();
    Levels best;
    size_t best_gain = 0;
    for (int32_t i = 0; i < kCandidates; ++i) {
      Levels row;
      for (const int32_t count : levels) row.push_back(static_cast<int32_t>(random.below(count)));
      row[static_cast<size_t>(wanted.first.first)] = wanted.first.second;
      row[static_cast<size_t>(wanted.second.first)] = wanted.second.second;
      if (!valid(row)) continue;
      size_t gain = 0;
      for (const Pair& p : pairs_of(row)) gain += open.count(p);
      if (gain > best_gain) {
        best_gain = gain;
        best = row;
      }
    }
    open.erase(wanted);
    if (best.empty()) continue;
    for (const Pair& p : pairs_of(best)) open.erase(p);
    rows.push_back(best);
  }
  return rows;
}

}  // namespace mhc::verify
