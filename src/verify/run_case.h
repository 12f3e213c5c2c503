#pragma once
// Runs a case and judges it.

#include <string>
#include <vector>

#include "base/runtime.h"
#include "verify/cases.h"
#include "verify/expected.h"

namespace mhc::verify {

struct CaseResult {
  std::string kernel;                   // the row that ran, empty if none did
  std::vector<Comparison> comparisons;  // one per output
  std::string problem;  // empty when all is well: else everything that is wrong, line by line

  bool ok() const { return problem.empty(); }
};

// With T = 0 no kernel has to run. The kernel that ran has to be the best at or below the runtime's
// ceiling.
CaseResult run_case(const Case& c, const Runtime& runtime);

// Name and instruction set of the best row of the operation's table within the ceiling; "" for f64.
struct KernelRow {
  std::string name;
  Isa isa = Isa::kScalar;
};
KernelRow expected_row(const Case& c, Isa ceiling);

// Whether this row multiplies phi as two bf16 parts.
bool splits_phi(const Case& c, const KernelRow& row);

// Instruction sets that can run here, ascending. Those named by the environment's MHC_REQUIRE (a
// list with commas) must be among them: `missing_isas` lists the ones that are not.
std::vector<Isa> available_isas();
std::string missing_isas();

}  // namespace mhc::verify
