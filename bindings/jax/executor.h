#pragma once
// XLA's thread pool as an executor of the library.
//
// A handler is itself a task of that pool (or runs on Python's thread), so it must never wait for a
// helper that has not started: with every thread of the pool inside a handler, none would. The
// caller therefore works through all tasks by itself if nobody comes, and waits only for helpers
// that have one in hand. Helpers are asked for once per handler, at its first loop of several tasks,
// not once per loop: a backward pass has dozens of short loops, and waking a thread for each would
// cost as much as the loop. XLA's pool has a thread for each host device, however few processors
// there are; no more workers than processors are used.

#include <mhc/mhc.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "xla/ffi/api/ffi.h"

namespace mhc_jax {

// The caller and its helpers during one handler.
class Gang {
 public:
  // Runs task(context, i, worker) for every i; the caller is worker 0.
  void run(int64_t tasks, mhc_task task, void* context);
  // What a helper does from its start until close().
  void help(int32_t worker);
  // Helpers leave, those that have not started leave at once.
  void close();

 private:
  struct Loop;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<uint32_t> generation_{0};  // of loop_ and closed_; helpers watch it without the lock
  std::atomic<int32_t> busy_{0};         // helpers that have a task of loop_ in hand
  Loop* loop_ = nullptr;
  bool closed_ = false;
};

// The runtime on which a handler calls the library, for as long as this lives. Environment as for
// every runtime: MHC_NUM_THREADS, where it is set, is the most workers to use.
class PoolRuntime {
 public:
  explicit PoolRuntime(xla::ffi::ThreadPool& pool);
  ~PoolRuntime();
  PoolRuntime(const PoolRuntime&) = delete;
  PoolRuntime& operator=(const PoolRuntime&) = delete;

  // Null where it could not be made; mhc_last_error() then says why.
  const mhc_runtime* get() const { return runtime_; }
  // With helpers, who are asked for at the first call.
  void run(int64_t tasks, mhc_task task, void* context);

 private:
  xla::ffi::ThreadPool& pool_;
  const mhc_runtime* runtime_;
  int32_t workers_ = 1;
  std::shared_ptr<Gang> gang_;
};

}  // namespace mhc_jax
