#include "executor.h"

#include <sched.h>

#include <map>
#include <thread>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mhc_jax {
namespace {

// About 20 us of watching before a sleep: longer than the pause between two loops of one handler,
// shorter than what a sleep and a wake-up cost.
constexpr int kSpins = 1000;

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

// Whose run() it is: the library calls the executor on the thread that called the library.
thread_local PoolRuntime* current = nullptr;

// Processors that this process may use.
int32_t processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return CPU_COUNT(&set);
}

int32_t workers_of(void* context) {
  return static_cast<int32_t>(reinterpret_cast<intptr_t>(context));
}

void run_on_gang(void*, int64_t tasks, mhc_task task, void* task_context) {
  if (current != nullptr && tasks > 1) {
    current->run(tasks, task, task_context);
    return;
  }
  for (int64_t i = 0; i < tasks; ++i) task(task_context, i, 0);
}

// One runtime per size of pool, never destroyed: a process has one or two.
const mhc_runtime* runtime_of(int32_t workers) {
  static std::mutex mutex;
  static auto* runtimes = new std::map<int32_t, mhc_runtime*>;
  const std::lock_guard lock(mutex);
  mhc_runtime*& runtime = (*runtimes)[workers];
  if (runtime == nullptr) {
    mhc_runtime_options options{};
    options.size = sizeof(options);
    if (mhc_runtime_options_from_environment(&options) != MHC_OK) return nullptr;
    if (options.num_threads == 0) options.num_threads = processors();
    options.executor = {reinterpret_cast<void*>(static_cast<intptr_t>(workers)), workers_of,
                        run_on_gang};
    if (mhc_runtime_create(&options, &runtime) != MHC_OK) return nullptr;
  }
  return runtime;
}

}  // namespace

struct Gang::Loop {
  int64_t tasks;
  mhc_task task;
  void* context;
  std::atomic<int64_t> next{0};

  void work(int32_t worker) {
    for (;;) {
      const int64_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= tasks) return;
      task(context, i, worker);
    }
  }
};

void Gang::run(int64_t tasks, mhc_task task, void* context) {
  Loop loop{.tasks = tasks, .task = task, .context = context};
  {
    const std::lock_guard lock(mutex_);
    loop_ = &loop;
    generation_.fetch_add(1, std::memory_order_release);
  }
  changed_.notify_all();
  loop.work(0);
  {
    const std::lock_guard lock(mutex_);
    loop_ = nullptr;  // nobody new begins
  }
  for (int spin = 0; spin < kSpins && busy_.load(std::memory_order_acquire) != 0; ++spin) {
    relax();
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return busy_.load(std::memory_order_acquire) == 0; });
}

void Gang::help(int32_t worker) {
  uint32_t seen = 0;
  for (;;) {
    for (int spin = 0; spin < kSpins && generation_.load(std::memory_order_acquire) == seen;
         ++spin) {
      relax();
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock,
                  [&] { return generation_.load(std::memory_order_relaxed) != seen || closed_; });
    if (closed_) return;
    seen = generation_.load(std::memory_order_relaxed);
    Loop* const loop = loop_;
    if (loop == nullptr) continue;
    busy_.fetch_add(1, std::memory_order_relaxed);
    lock.unlock();
    loop->work(worker);
    lock.lock();
    if (busy_.fetch_sub(1, std::memory_order_release) == 1) changed_.notify_all();
  }
}

void Gang::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    generation_.fetch_add(1, std::memory_order_release);
  }
  changed_.notify_all();
}

PoolRuntime::PoolRuntime(xla::ffi::ThreadPool& pool) : pool_(pool) {
  const int64_t threads = pool.num_threads();
  runtime_ = runtime_of(threads > 1 ? static_cast<int32_t>(threads) : 1);
  if (runtime_ != nullptr) mhc_runtime_workers(runtime_, &workers_);
  if (workers_ > 1) current = this;
}

void PoolRuntime::run(int64_t tasks, mhc_task task, void* context) {
  if (gang_ == nullptr) {
    gang_ = std::make_shared<Gang>();
    for (int32_t worker = 1; worker < workers_; ++worker) {
      // A pool whose queue is full runs the task here and now: this thread would wait for itself.
      pool_.Schedule([gang = gang_, worker, caller = std::this_thread::get_id()] {
        if (std::this_thread::get_id() != caller) gang->help(worker);
      });
    }
  }
  gang_->run(tasks, task, context);
}

PoolRuntime::~PoolRuntime() {
  current = nullptr;
  if (gang_ != nullptr) gang_->close();
}

}  // namespace mhc_jax
