#include "verify/run_case.h"

#include <cstdlib>

#include "base/counters.h"
#include "kernels/coefficients/coefficients_plan.h"
#include "kernels/pre/pre_plan.h"
#include "kernels/pre_backward/pre_backward_plan.h"

namespace mhc::verify {
namespace {

template <class Rows>
ChosenRow row_of(const Rows& rows, DType dtype, const Runtime& runtime) {
  const auto& row = choose_kernel(rows, dtype, runtime);
  return {row.name, row.isa};
}

void note(std::string* problem, const std::string& line) {
  *problem += (problem->empty() ? "" : "\n") + line;
}

}  // namespace

ChosenRow expected_row(const Case& c, const Runtime& runtime) {
  if (c.dtype == DType::kF64) return {};
  switch (c.op) {
    case Op::kPostBackward:
      return row_of(post_backward_kernels(), c.dtype, runtime);
    case Op::kCollapse:
      return row_of(collapse_kernels(), c.dtype, runtime);
    case Op::kSpread:
      return row_of(spread_kernels(), c.dtype, runtime);
    case Op::kPre:
      return row_of(pre_kernels(), c.dtype, runtime);
    case Op::kPreBackward:
      return row_of(pre_backward_kernels(), c.dtype, runtime);
    case Op::kCoefficients:
    case Op::kCoefficientsBackward:
      return row_of(coefficients_kernels(), DType::kF32, runtime);
    case Op::kPost:
      break;
  }
  return row_of(post_kernels(), c.dtype, runtime);
}

bool splits_phi(const Case& c, const ChosenRow& row) {
  const bool dot = row.isa == Isa::kAvx512Bf16 && c.dtype == DType::kBF16;
  const bool backward = c.op == Op::kPreBackward;
  return dot && c.spec.phi_precision == Precision::kFloat32 && (c.op == Op::kPre || backward) &&
         (!backward || c.spec.gradient_precision == Precision::kBFloat16);
}

CaseRunner::CaseRunner(const Case& c) : case_(c), problem_(Problem::make(c)) {}

CaseResult CaseRunner::run(const Runtime& runtime) {
  CaseResult result;
  const ChosenRow row = expected_row(case_, runtime);
  std::vector<Expected>& expected = expected_[splits_phi(case_, row) ? 1 : 0];
  if (expected.empty()) {
    problem_->restore();
    expected = problem_->expect(splits_phi(case_, row));
  }
  const int64_t calls = calls_of(row.name.c_str());
  const Status status = problem_->run(runtime);
  if (!status.ok()) {
    note(&result.problem, std::string("refused: ") + status.message);
  } else if (case_.dims.tokens > 0 && !row.name.empty() &&
             calls_of(row.name.c_str()) != calls + 1) {
    note(&result.problem, "kernel " + row.name + " did not run");
  }
  result.kernel = row.name;
  const std::string damage = problem_->damage();
  if (!damage.empty()) note(&result.problem, damage);
  const std::vector<Output> outputs = problem_->outputs();
  for (size_t i = 0; i < outputs.size() && status.ok(); ++i) {
    result.comparisons.push_back(compare(outputs[i].tensor, expected[i]));
    const Comparison& k = result.comparisons.back();
    if (!k.ok()) note(&result.problem, std::to_string(k.wrong) + " wrong, first " + k.first_wrong);
  }
  if (!result.problem.empty())
    result.problem = describe(case_) + " [" + row.name + "]\n" + result.problem;
  return result;
}

Runtime runtime_of(Isa isa) {
  Runtime runtime;
  runtime.ceiling = isa;
  runtime.exact_isa = true;
  return runtime;
}

std::vector<Isa> available_isas() {
  std::vector<Isa> all;
  for (int32_t i = 0; i < kIsas; ++i) {
    if (is_available(static_cast<Isa>(i))) all.push_back(static_cast<Isa>(i));
  }
  return all;
}

std::string missing_isas() {
  const char* list = std::getenv("MHC_REQUIRE");
  std::string missing, word;
  for (const char* p = list == nullptr ? "" : list;; ++p) {
    if (*p != ',' && *p != 0) {
      word += *p;
      continue;
    }
    Isa isa;
    if (!word.empty() && (!parse_isa(word.c_str(), &isa) || !is_available(isa))) {
      missing += (missing.empty() ? "" : ", ") + word;
    }
    word.clear();
    if (*p == 0) return missing;
  }
}

}  // namespace mhc::verify
