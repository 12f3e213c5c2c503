#pragma once
// The library's own threads, persistent, with the calling thread as one of the workers.
//
// A call that cannot have the helpers runs its tasks by itself, as worker 0 of its own: a call from
// inside a task, or while another thread's call has them. After a fork the child starts helpers of
// its own.

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "base/bell.h"
#include "base/executor.h"
#include "base/processors.h"

namespace mhc {

inline constexpr int32_t kMaxThreads = 1024;

class ThreadPool {
 public:
  // threads counts the caller: threads - 1 helpers are started; 0 means one thread per usable core.
  // With pin, helper k stays on the k-th usable core; the caller's own affinity is left alone. Null
  // when the system has no memory or threads left.
  static ThreadPool* create(int32_t threads, bool pin);
  ~ThreadPool();  // no call may be running
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  Executor executor();
  int32_t workers() const { return helper_count_ + 1; }
  bool pinned() const { return pin_; }

 private:
  struct alignas(64) Helper {
    ThreadPool* pool = nullptr;
    int32_t worker = 0;
    pthread_t thread{};
    Bell bell;
  };

  ThreadPool() = default;
  void run(int64_t tasks, TaskFunction task, void* task_context);
  bool acquire();
  bool start();
  bool start_after_fork(int32_t process);
  void stop(int32_t helpers);
  void help(Helper* self);
  bool enter();
  void leave();
  void work(int32_t worker);
  void wake_children(int32_t worker);
  static void* helper_main(void* helper);

  Processors processors_;
  Helper* helpers_ = nullptr;
  int32_t helper_count_ = 0;
  bool pin_ = false;
  std::atomic<bool> stopping_{false};
  std::atomic<int32_t> owner_{
      0};  // process that the helpers live in; 0 while or after failing to start
  std::atomic<bool> busy_{false};  // a call has the helpers

  // The call that has them. Written while the gate is closed and empty.
  TaskFunction task_ = nullptr;
  void* task_context_ = nullptr;
  int64_t tasks_ = 0;
  alignas(64) std::atomic<int64_t> next_{0};
  // kOpen while helpers may come in, plus the number of those inside: a helper that wakes late
  // finds it closed, and nobody waits for it.
  alignas(64) std::atomic<uint32_t> gate_{0};
  Bell left_;
};

}  // namespace mhc
