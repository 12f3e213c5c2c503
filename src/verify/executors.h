#pragma once
// Executors that results must not depend on: another library's pool, and one that does everything
// differently.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/executor.h"

namespace mhc::verify {

// A framework's pool as its handlers see it: closures are queued to a fixed number of threads, the
// handler runs on one of them and takes part, so that it may not wait for closures that have not
// begun.
class QueuePool {
 public:
  explicit QueuePool(int32_t threads);
  ~QueuePool();
  QueuePool(const QueuePool&) = delete;
  QueuePool& operator=(const QueuePool&) = delete;

  Executor executor();
  // Runs a handler on one of the pool's threads and waits for it.
  void run_handler(const std::function<void()>& handler);

 private:
  void schedule(std::function<void()> closure);
  void serve();
  static int32_t workers(void* self);
  static void run(void* self, int64_t tasks, TaskFunction task, void* context);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

// Every run on fresh threads, the last task first, each thread in another floating-point mode
// (rounding up, subnormals kept or flushed), with more workers than tasks where it can.
Executor hostile_executor();

}  // namespace mhc::verify
