#include "base/capped_executor.h"

#include <atomic>

namespace mhc {
namespace {

int32_t workers_of(void* self) {
  const CappedExecutor& capped = *static_cast<CappedExecutor*>(self);
  const int32_t inner = capped.inner.workers();
  return inner < capped.cap ? inner : capped.cap;
}

struct Call {
  std::atomic<int64_t> next{0};
  int64_t tasks;
  TaskFunction task;
  void* context;
};

void run_capped(void* self, int64_t tasks, TaskFunction task, void* context) {
  const int64_t workers = workers_of(self);
  Call call{.tasks = tasks, .task = task, .context = context};
  const auto share = [](void* shared, int64_t worker, int32_t) {
    Call& c = *static_cast<Call*>(shared);
    for (;;) {
      const int64_t i = c.next.fetch_add(1, std::memory_order_relaxed);
      if (i >= c.tasks) return;
      c.task(c.context, i, static_cast<int32_t>(worker));
    }
  };
  const Executor& inner = static_cast<CappedExecutor*>(self)->inner;
  inner.run_function(inner.context, tasks < workers ? tasks : workers, share, &call);
}

}  // namespace

Executor CappedExecutor::executor() { return {this, workers_of, run_capped}; }

}  // namespace mhc
