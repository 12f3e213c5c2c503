#include "base/pool.h"

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <new>

namespace mhc {
namespace {

constexpr uint32_t kOpen = 1u << 31;

// Set in helpers for ever and in a caller while its tasks run: calls from there are nested.
constinit thread_local bool inside_task = false;

void run_serially(int64_t tasks, TaskFunction task, void* task_context) {
  for (int64_t i = 0; i < tasks; ++i) task(task_context, i, 0);
}

}  // namespace

ThreadPool* ThreadPool::create(int32_t threads, bool pin) {
  ThreadPool* pool = new (std::nothrow) ThreadPool;
  if (pool == nullptr) return nullptr;
  pool->processors_ = usable_processors();
  if (threads <= 0) threads = pool->processors_.recommended_threads;
  pool->helper_count_ = (threads < kMaxThreads ? threads : kMaxThreads) - 1;
  pool->pin_ = pin;
  pool->helpers_ = new (std::nothrow) Helper[static_cast<size_t>(pool->helper_count_)];
  if (pool->helpers_ == nullptr || !pool->start()) {
    delete pool;
    return nullptr;
  }
  return pool;
}

ThreadPool::~ThreadPool() {
  if (owner_.load() == getpid()) stop(helper_count_);
  delete[] helpers_;
}

Executor ThreadPool::executor() {
  return {this, [](void* self) { return static_cast<ThreadPool*>(self)->workers(); },
          [](void* self, int64_t tasks, TaskFunction task, void* task_context) {
            static_cast<ThreadPool*>(self)->run(tasks, task, task_context);
          }};
}

// Helpers take no signals: those belong to the program's own threads.
bool ThreadPool::start() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int32_t started = 0;
  for (; started < helper_count_; ++started) {
    Helper& h = helpers_[started];
    h.pool = this;
    h.worker = started + 1;
    h.bell.reset();
    if (pthread_create(&h.thread, nullptr, helper_main, &h) != 0) break;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (started < helper_count_) {
    stop(started);
    return false;
  }
  owner_.store(getpid(), std::memory_order_release);
  return true;
}

void ThreadPool::stop(int32_t helpers) {
  stopping_.store(true);
  for (int32_t i = 0; i < helpers; ++i) helpers_[i].bell.ring();
  for (int32_t i = 0; i < helpers; ++i) pthread_join(helpers_[i].thread, nullptr);
  stopping_.store(false);
}

// The child of a fork has none of the threads, and may have inherited any state between two calls'
// ends.
bool ThreadPool::start_after_fork(int32_t process) {
  int32_t seen = owner_.load(std::memory_order_acquire);
  if (seen == process) return true;
  if (seen == 0 || !owner_.compare_exchange_strong(seen, 0)) return false;
  busy_.store(false);
  gate_.store(0);
  left_.reset();
  return start();
}

bool ThreadPool::acquire() {
  const int32_t process = getpid();
  if (owner_.load(std::memory_order_acquire) != process && !start_after_fork(process)) return false;
  return !busy_.exchange(true, std::memory_order_acquire);
}

void ThreadPool::run(int64_t tasks, TaskFunction task, void* task_context) {
  if (helper_count_ == 0 || inside_task || tasks <= 1 || !acquire()) {
    run_serially(tasks, task, task_context);
    return;
  }
  task_ = task;
  task_context_ = task_context;
  tasks_ = tasks;
  next_.store(0, std::memory_order_relaxed);
  gate_.store(kOpen, std::memory_order_release);
  inside_task = true;
  wake_children(0);
  work(0);
  inside_task = false;
  uint32_t seen = left_.count();
  gate_.fetch_and(~kOpen, std::memory_order_acq_rel);
  while (gate_.load(std::memory_order_acquire) != 0) seen = left_.wait(seen);
  busy_.store(false, std::memory_order_release);
}

// Waking costs a system call each, so that it is spread as a binary tree. No more are woken than
// have work.
void ThreadPool::wake_children(int32_t worker) {
  for (int64_t child = 2 * int64_t{worker} + 1; child <= 2 * int64_t{worker} + 2; ++child) {
    if (child <= helper_count_ && child < tasks_) helpers_[child - 1].bell.ring();
  }
}

void ThreadPool::work(int32_t worker) {
  for (;;) {
    const int64_t i = next_.fetch_add(1, std::memory_order_relaxed);
    if (i >= tasks_) return;
    task_(task_context_, i, worker);
  }
}

bool ThreadPool::enter() {
  uint32_t gate = gate_.load(std::memory_order_relaxed);
  while ((gate & kOpen) != 0) {
    if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acq_rel)) return true;
  }
  return false;
}

void ThreadPool::leave() {
  if (gate_.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.ring();
}

void ThreadPool::help(Helper* self) {
  inside_task = true;
  uint32_t seen = 0;
  for (;;) {
    seen = self->bell.wait(seen);
    if (stopping_.load()) return;
    if (!enter()) continue;
    wake_children(self->worker);
    work(self->worker);
    leave();
  }
}

void* ThreadPool::helper_main(void* helper) {
  Helper* self = static_cast<Helper*>(helper);
#if defined(__linux__)
  char name[16];
  std::snprintf(name, sizeof(name), "mhc-%d", self->worker);
  pthread_setname_np(pthread_self(), name);
#endif
  if (self->pool->pin_) pin_this_thread(self->pool->processors_, self->worker);
  self->pool->help(self);
  return nullptr;
}

}  // namespace mhc
