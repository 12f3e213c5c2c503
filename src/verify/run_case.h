#pragma once
// Runs a case and judges it.

#include <memory>
#include <string>
#include <vector>

#include "base/runtime.h"
#include "verify/cases.h"
#include "verify/expected.h"
#include "verify/problem.h"

namespace mhc::verify {

struct CaseResult {
  std::string kernel;                   // the row that ran, empty if none did
  std::vector<Comparison> comparisons;  // one per output
  std::string problem;  // empty when all is well: else everything that is wrong, line by line

  bool ok() const { return problem.empty(); }
};

// One case on any number of runtimes; what is expected is worked out once.
class CaseRunner {
 public:
  explicit CaseRunner(const Case& c);
  // The kernel that runs has to be the one that the runtime chooses; with T = 0 none has to.
  CaseResult run(const Runtime& runtime);
  Problem& problem() { return *problem_; }

 private:
  Case case_;
  std::unique_ptr<Problem> problem_;
  std::vector<Expected> expected_[2];  // without and with phi in two parts
};

// Name and instruction set of the row that the runtime chooses for the case; "" for f64.
struct ChosenRow {
  std::string name;
  Isa isa = Isa::kScalar;
};
ChosenRow expected_row(const Case& c, const Runtime& runtime);

// Whether this row multiplies phi as two bf16 parts.
bool splits_phi(const Case& c, const ChosenRow& row);

// A runtime that runs exactly the rows of this instruction set, where the tables have them.
Runtime runtime_of(Isa isa);

// Instruction sets that can run here, ascending. Those named by the environment's MHC_REQUIRE (a
// list with commas) must be among them: `missing_isas` lists the ones that are not.
std::vector<Isa> available_isas();
std::string missing_isas();

}  // namespace mhc::verify
