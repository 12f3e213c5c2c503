#include "verify/run_case.h"

#include <cstdlib>

#include "base/counters.h"
#include "kernels/coefficients/coefficients_plan.h"
#include "kernels/pre/pre_plan.h"
#include "kernels/pre_backward/pre_backward_plan.h"
#include "verify/problem.h"

namespace mhc::verify {
namespace {

template <class Rows>
KernelRow best_row(const Rows& rows, DType dtype, Isa ceiling) {
  for (const auto& row : rows) {
    if (row.dtype == dtype && row.isa <= ceiling && is_available(row.isa))
      return {row.name, row.isa};
  }
  return {};
}

void note(std::string* problem, const std::string& line) {
  *problem += (problem->empty() ? "" : "\n") + line;
}

}  // namespace

KernelRow expected_row(const Case& c, Isa ceiling) {
  if (c.dtype == DType::kF64) return {};
  switch (c.op) {
    case Op::kPostBackward:
      return best_row(post_backward_kernels(), c.dtype, ceiling);
    case Op::kCollapse:
      return best_row(collapse_kernels(), c.dtype, ceiling);
    case Op::kSpread:
      return best_row(spread_kernels(), c.dtype, ceiling);
    case Op::kPre:
      return best_row(pre_kernels(), c.dtype, ceiling);
    case Op::kPreBackward:
      return best_row(pre_backward_kernels(), c.dtype, ceiling);
    case Op::kCoefficients:
    case Op::kCoefficientsBackward:
      return best_row(coefficients_kernels(), DType::kF32, ceiling);
    case Op::kPost:
      break;
  }
  return best_row(post_kernels(), c.dtype, ceiling);
}

bool splits_phi(const Case& c, const KernelRow& row) {
  const bool dot = row.isa == Isa::kAvx512Bf16 && c.dtype == DType::kBF16;
  const bool backward = c.op == Op::kPreBackward;
  return dot && c.spec.phi_precision == Precision::kFloat32 && (c.op == Op::kPre || backward) &&
         (!backward || c.spec.gradient_precision == Precision::kBFloat16);
}

CaseResult run_case(const Case& c, const Runtime& runtime) {
  CaseResult result;
  const KernelRow row = expected_row(c, runtime.ceiling);
  const std::unique_ptr<Problem> problem = Problem::make(c);
  const std::vector<Expected> expected = problem->expect(splits_phi(c, row));
  const int64_t calls = calls_of(row.name.c_str());
  const Status status = problem->run(runtime);
  if (!status.ok()) {
    note(&result.problem, std::string("refused: ") + status.message);
  } else if (c.dims.tokens > 0 && !row.name.empty() && calls_of(row.name.c_str()) != calls + 1) {
    note(&result.problem, "kernel " + row.name + " did not run");
  }
  result.kernel = row.name;
  const std::string damage = problem->damage();
  if (!damage.empty()) note(&result.problem, damage);
  const std::vector<Output> outputs = problem->outputs();
  for (size_t i = 0; i < outputs.size() && status.ok(); ++i) {
    result.comparisons.push_back(compare(outputs[i].tensor, expected[i]));
    const Comparison& k = result.comparisons.back();
    if (!k.ok()) note(&result.problem, std::to_string(k.wrong) + " wrong, first " + k.first_wrong);
  }
  if (!result.problem.empty())
    result.problem = describe(c) + " [" + row.name + "]\n" + result.problem;
  return result;
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
