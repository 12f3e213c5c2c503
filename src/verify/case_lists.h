#pragma once
// The cases that every kernel row has to pass.

#include <vector>

#include "verify/cases.h"

namespace mhc::verify {

// Every combination of the options that the operation reads, at D <= 33; token counts, streams and
// placements go round. Where the options of the spec and those of the call would multiply to more
// than a minute, each kind is complete and the other goes round. `thin` keeps every thin-th.
std::vector<Case> option_cases(Op op, int64_t thin = 1);

// Pairwise cover of the sizes T 0 1 3 5 7 21 31 33 63 65 127 129, D 1 7 15 17 33 512 513 1030 4097
// 7168, n 1 to 8 and 16 with types, manifolds and placements. `work` bounds T n D m of a case.
std::vector<Case> size_cases(Op op, double work);

// Multiply-adds that judging a case takes, roughly.
double work_of(const Case& c);

}  // namespace mhc::verify
