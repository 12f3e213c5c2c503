#pragma once
// How work is spread: two function pointers and a context, so that anybody's pool can do it.

#include <cstdint>

namespace mhc {

using TaskFunction = void (*)(void* context, int64_t task, int32_t worker);

// run() calls task(context, i, worker) once for every i in [0, tasks), in any order and on any
// threads, and returns when all are done. worker is dense, 0 <= worker < workers(), and no two
// tasks run with the same worker at the same time. Tasks do not throw.
struct Executor {
  void* context = nullptr;
  int32_t (*workers_function)(void* context) = nullptr;
  void (*run_function)(void* context, int64_t tasks, TaskFunction task,
                       void* task_context) = nullptr;

  int32_t workers() const { return workers_function == nullptr ? 1 : workers_function(context); }

  // Every task runs under the library's floating-point policy (fpenv.h), and the thread's own is
  // restored behind it. f is called as f(task, worker).
  template <class F>
  void run(int64_t tasks, const F& f) const;
};

Executor serial_executor();

}  // namespace mhc

#include "base/executor-inl.h"
