#pragma once
// An executor of two threads that start and end with each run, for tests of what does not depend on
// threads.

#include <atomic>
#include <cstdint>
#include <thread>

#include "base/executor.h"

namespace mhc::verify {

inline Executor two_workers() {
  Executor executor;
  executor.workers_function = [](void*) -> int32_t { return 2; };
  executor.run_function = [](void*, int64_t tasks, TaskFunction task, void* context) {
    std::atomic<int64_t> next{0};
    const auto work = [&](int32_t worker) {
      for (int64_t i = next++; i < tasks; i = next++) task(context, i, worker);
    };
    std::thread other(work, 1);
    work(0);
    other.join();
  };
  return executor;
}

}  // namespace mhc::verify
