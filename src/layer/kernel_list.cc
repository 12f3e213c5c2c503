#include "layer/kernel_list.h"

#include "kernels/coefficients/coefficients_plan.h"
#include "kernels/collapse/collapse.h"
#include "kernels/post/post.h"
#include "kernels/post_backward/post_backward.h"
#include "kernels/pre/pre_plan.h"
#include "kernels/pre_backward/pre_backward_plan.h"
#include "kernels/spread/spread.h"

namespace mhc {
namespace {

// Calls f(operation, rows) for the table of each operation.
template <class F>
void for_each_table(const F& f) {
  f("pre", pre_kernels());
  f("post", post_kernels());
  f("post_backward", post_backward_kernels());
  f("pre_backward", pre_backward_kernels());
  f("coefficients", coefficients_kernels());
  f("collapse", collapse_kernels());
  f("spread", spread_kernels());
}

}  // namespace

int32_t kernel_count() {
  size_t count = 0;
  for_each_table([&](const char*, const auto& rows) { count += rows.size(); });
  return static_cast<int32_t>(count);
}

KernelRow kernel_at(int32_t index) {
  KernelRow found{};
  int32_t first = 0;
  for_each_table([&](const char* operation, const auto& rows) {
    const int32_t count = static_cast<int32_t>(rows.size());
    if (index >= first && index < first + count) {
      const auto& row = rows[static_cast<size_t>(index - first)];
      found = {operation, row.name, row.isa, row.dtype};
      if constexpr (requires { row.dot; }) found.dot = row.dot;
    }
    first += count;
  });
  return found;
}

}  // namespace mhc
