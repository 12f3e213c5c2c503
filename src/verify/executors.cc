#include "verify/executors.h"

#include <atomic>
#include <cfenv>
#include <memory>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mhc::verify {
namespace {

constexpr int32_t kHostileWorkers = 5;

// Modes that a thread may be in when a task reaches it.
void set_mode(int32_t which) {
#if defined(__x86_64__)
  constexpr uint32_t kMasks = 0x1f80, kFlush = 0x8040, kUp = 0x4000, kToZero = 0x6000;
  const uint32_t modes[] = {kMasks, kMasks | kFlush, kMasks | kUp, kMasks | kToZero | kFlush,
                            kMasks | 0x40};
  _mm_setcsr(modes[which % 5]);
#else
  std::fesetround(which % 2 == 0 ? FE_TONEAREST : FE_UPWARD);
#endif
}

void run_hostile(void*, int64_t tasks, TaskFunction task, void* context) {
  std::atomic<int64_t> left{tasks};
  const auto work = [&](int32_t worker) {
    set_mode(worker);
    for (int64_t i = --left; i >= 0; i = --left) task(context, i, worker);
  };
  std::vector<std::thread> threads;
  for (int32_t w = 0; w < kHostileWorkers; ++w) threads.emplace_back(work, w);
  for (std::thread& t : threads) t.join();
}

// One call of a handler: closures that come late find nothing left to do.
struct SharedRun {
  TaskFunction task;
  void* context;
  int64_t tasks;
  std::atomic<int64_t> next{0}, done{0};
  std::atomic<int32_t> workers{0};

  void work() {
    const int32_t worker = workers++;
    for (int64_t i = next++; i < tasks; i = next++) {
      task(context, i, worker);
      ++done;
    }
  }
};

}  // namespace

QueuePool::QueuePool(int32_t threads) {
  for (int32_t i = 0; i < threads; ++i) threads_.emplace_back([this] { serve(); });
}

QueuePool::~QueuePool() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& t : threads_) t.join();
}

Executor QueuePool::executor() { return {this, workers, run}; }

void QueuePool::run_handler(const std::function<void()>& handler) {
  std::mutex mutex;
  std::condition_variable finished;
  bool done = false;
  schedule([&] {
    handler();
    const std::lock_guard<std::mutex> lock(mutex);
    done = true;
    finished.notify_one();
  });
  std::unique_lock<std::mutex> lock(mutex);
  finished.wait(lock, [&] { return done; });
}

void QueuePool::schedule(std::function<void()> closure) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(closure));
  }
  wake_.notify_one();
}

void QueuePool::serve() {
  for (;;) {
    std::unique_lock<std::mutex> lock(mutex_);
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const std::function<void()> closure = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    closure();
  }
}

int32_t QueuePool::workers(void* self) {
  return static_cast<int32_t>(static_cast<QueuePool*>(self)->threads_.size());
}

void QueuePool::run(void* self, int64_t tasks, TaskFunction task, void* context) {
  const auto shared = std::make_shared<SharedRun>();
  shared->task = task;
  shared->context = context;
  shared->tasks = tasks;
  for (int32_t i = 1; i < workers(self); ++i) {
    static_cast<QueuePool*>(self)->schedule([shared] {
      if (shared->next < shared->tasks) shared->work();
    });
  }
  shared->work();
  while (shared->done < tasks) std::this_thread::yield();
}

Executor hostile_executor() {
  return {nullptr, [](void*) -> int32_t { return kHostileWorkers; }, run_hostile};
}

}  // namespace mhc::verify
