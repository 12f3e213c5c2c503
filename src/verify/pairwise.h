#pragma once
// A small set of rows in which every pair of levels of every two factors occurs.

#include <cstdint>
#include <functional>
#include <vector>

namespace mhc::verify {

using Levels = std::vector<int32_t>;  // a row: the chosen level of each factor

// levels[f] is the number of levels of factor f. Rows that `valid` refuses are not made, and a pair
// that occurs in no valid row found by chance is given up. The same seed gives the same rows.
std::vector<Levels> pairwise_cover(const std::vector<int32_t>& levels, uint64_t seed,
                                   const std::function<bool(const Levels&)>& valid);

}  // namespace mhc::verify
