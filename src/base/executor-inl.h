#pragma once

#include "base/fpenv.h"

namespace mhc {

template <class F>
void Executor::run(int64_t tasks, const F& f) const {
  if (tasks <= 0) return;
  const auto task = [](void* task_context, int64_t index, int32_t worker) {
    const FloatingPointPolicy policy;
    (*static_cast<const F*>(task_context))(index, worker);
  };
  if (run_function == nullptr || tasks == 1) {
    for (int64_t i = 0; i < tasks; ++i) task(const_cast<F*>(&f), i, 0);
    return;
  }
  run_function(context, tasks, task, const_cast<F*>(&f));
}

}  // namespace mhc
