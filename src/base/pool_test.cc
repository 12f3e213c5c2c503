#include "base/pool.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "base/capped_executor.h"

namespace mhc {
namespace {

using Pool = std::unique_ptr<ThreadPool>;

Pool make_pool(int32_t threads, bool pin = false) { return Pool(ThreadPool::create(threads, pin)); }

// Runs tasks that check the contract of Executor; the number of times each one ran must be one.
void expect_contract(const Executor& executor, int64_t tasks) {
  std::vector<std::atomic<int32_t>> runs(static_cast<size_t>(tasks));
  std::vector<std::atomic<int32_t>> inside(static_cast<size_t>(executor.workers()));
  std::atomic<int32_t> violations{0};
  executor.run(tasks, [&](int64_t task, int32_t worker) {
    if (worker < 0 || worker >= executor.workers()) {
      ++violations;
      return;
    }
    if (inside[static_cast<size_t>(worker)].fetch_add(1) != 0) ++violations;
    ++runs[static_cast<size_t>(task)];
    if (inside[static_cast<size_t>(worker)].fetch_sub(1) != 1) ++violations;
  });
  EXPECT_EQ(violations, 0);
  for (int64_t i = 0; i < tasks; ++i) ASSERT_EQ(runs[static_cast<size_t>(i)], 1) << "task " << i;
}

TEST(ThreadPool, RunsEveryTaskOnceWithDenseWorkers) {
  for (int32_t threads : {1, 2, 3, 4, 7}) {
    const Pool pool = make_pool(threads);
    ASSERT_NE(pool, nullptr);
    EXPECT_EQ(pool->workers(), threads);
    for (int64_t tasks : {0, 1, 2, 3, 7, 8, 100, 1000}) expect_contract(pool->executor(), tasks);
  }
}

TEST(ThreadPool, WritesOfTasksAreSeenByTheCaller) {
  const Pool pool = make_pool(4);
  std::vector<int64_t> values(1000);
  for (int64_t round = 0; round < 200; ++round) {
    pool->executor().run(1000,
                         [&](int64_t i, int32_t) { values[static_cast<size_t>(i)] = i * round; });
    ASSERT_EQ(std::accumulate(values.begin(), values.end(), int64_t{0}), 499500 * round);
  }
}

TEST(ThreadPool, HelpersTakePart) {
  const Pool pool = make_pool(3);
  std::vector<std::atomic<bool>> seen(3);
  // Each worker waits within its first task until all have one.
  std::atomic<int32_t> arrived{0};
  pool->executor().run(3, [&](int64_t, int32_t worker) {
    seen[static_cast<size_t>(worker)] = true;
    ++arrived;
    while (arrived < 3) std::this_thread::yield();
  });
  for (const auto& s : seen) EXPECT_TRUE(s);
}

TEST(ThreadPool, CallsFromSeveralThreadsAtOnce) {
  const Pool pool = make_pool(3);
  std::vector<std::thread> callers;
  for (int32_t c = 0; c < 5; ++c) {
    callers.emplace_back([&] {
      for (int32_t i = 0; i < 100; ++i) expect_contract(pool->executor(), 20);
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST(ThreadPool, ACallInsideATaskRunsByItself) {
  const Pool pool = make_pool(3);
  const Pool other = make_pool(2);
  std::atomic<int64_t> inner{0};
  std::atomic<int32_t> elsewhere{0};
  pool->executor().run(6, [&](int64_t, int32_t) {
    const std::thread::id self = std::this_thread::get_id();
    for (const Pool& p : {std::cref(pool), std::cref(other)}) {
      p->executor().run(10, [&](int64_t, int32_t worker) {
        ++inner;
        if (std::this_thread::get_id() != self || worker != 0) ++elsewhere;
      });
    }
  });
  EXPECT_EQ(inner, 6 * 2 * 10);
  EXPECT_EQ(elsewhere, 0);
  expect_contract(pool->executor(), 50);
}

TEST(ThreadPool, SleepingHelpersWakeUp) {
  const Pool pool = make_pool(3);
  for (int32_t i = 0; i < 5; ++i) {
    expect_contract(pool->executor(), 30);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // far beyond the spinning
  }
}

// Threads made after a fork are beyond the thread sanitizer.
#if defined(__SANITIZE_THREAD__)
#define MHC_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MHC_THREAD_SANITIZER 1
#endif
#endif

#if !defined(MHC_THREAD_SANITIZER)
// Runs f in a child process; its exit status.
template <class F>
int in_child(const F& f) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);  // a deadlock ends the child by a signal
    _exit(f() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

// In the child: both workers must be at work at the same time, so that helpers really exist there.
bool two_workers_meet(ThreadPool* pool) {
  std::atomic<int32_t> arrived{0};
  pool->executor().run(2, [&](int64_t, int32_t) {
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  return arrived == 2;
}

TEST(ThreadPool, AForkedChildStartsHelpersOfItsOwn) {
  const Pool pool = make_pool(2);
  ASSERT_TRUE(two_workers_meet(pool.get()));
  EXPECT_EQ(in_child([&] { return two_workers_meet(pool.get()); }), 0);
  EXPECT_EQ(in_child([&] {
              return two_workers_meet(pool.get()) &&
                     in_child([&] { return two_workers_meet(pool.get()); }) == 0;
            }),
            0);
  EXPECT_TRUE(two_workers_meet(pool.get()));
}

TEST(ThreadPool, AForkDuringACallLeavesTheChildAUsablePool) {
  const Pool pool = make_pool(2);
  std::atomic<bool> started{false};
  std::atomic<bool> release{false};
  std::thread caller([&] {
    pool->executor().run(2, [&](int64_t, int32_t) {
      started = true;
      while (!release) std::this_thread::yield();
    });
  });
  while (!started) std::this_thread::yield();
  const int status = in_child([&] { return two_workers_meet(pool.get()); });
  release = true;
  caller.join();
  EXPECT_EQ(status, 0);
}

TEST(ThreadPool, AChildMayDestroyAPoolThatItNeverUsed) {
  Pool pool = make_pool(3);
  EXPECT_EQ(in_child([&] {
              pool.reset();
              return true;
            }),
            0);
}
#endif

TEST(ThreadPool, PinnedHelpersStayOnOneProcessorAndTheCallerIsLeftAlone) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  const Pool pool = make_pool(2, true);
  std::atomic<int32_t> of_helper{0};
  std::atomic<int32_t> arrived{0};
  pool->executor().run(2, [&](int64_t, int32_t worker) {
    cpu_set_t set;
    if (worker == 1 && sched_getaffinity(0, sizeof(set), &set) == 0) of_helper = CPU_COUNT(&set);
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
  });
  EXPECT_EQ(of_helper, 1);
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof(after), &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(ThreadPool, DefaultSizeIsWhatTheProcessMayUse) {
  const Processors processors = usable_processors();
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  EXPECT_GE(processors.cores, 1);
  EXPECT_LE(processors.cores, CPU_COUNT(&set));
  EXPECT_GE(processors.recommended_threads, 1);
  EXPECT_LE(processors.recommended_threads, processors.cores);
  EXPECT_EQ(make_pool(0)->workers(), processors.recommended_threads);
}

TEST(ThreadPool, DefaultSizeFollowsTheAffinity) {
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  CPU_ZERO(&one);
  for (size_t k = 0; k < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++k) {
    if (CPU_ISSET(k, &all)) CPU_SET(k, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  const int32_t workers = make_pool(0)->workers();
  ASSERT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
  EXPECT_EQ(workers, 1);
}

TEST(SerialExecutor, RunsInOrderOnTheCaller) {
  std::vector<int64_t> order;
  serial_executor().run(5, [&](int64_t i, int32_t worker) {
    EXPECT_EQ(worker, 0);
    order.push_back(i);
  });
  EXPECT_EQ(order, (std::vector<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(serial_executor().workers(), 1);
}

TEST(CappedExecutor, NeverUsesMoreWorkersThanItsCap) {
  const Pool pool = make_pool(4);
  for (int32_t cap : {1, 2, 3, 4, 9}) {
    CappedExecutor capped{pool->executor(), cap};
    EXPECT_EQ(capped.executor().workers(), cap < 4 ? cap : 4);
    for (int64_t tasks : {0, 1, 2, 5, 100}) expect_contract(capped.executor(), tasks);
  }
}

#if defined(__x86_64__)
TEST(Executor, TasksRunUnderThePolicyAndTheCallersModeComesBack) {
  const Pool pool = make_pool(3);
  constexpr uint32_t kDefault = 0x1f80;
  constexpr uint32_t kUpwards = 0x1f80 | 0x4000;
  for (const uint32_t mode : {kDefault, kUpwards}) {
    for (const Executor& executor : {serial_executor(), pool->executor()}) {
      _mm_setcsr(mode);
      std::atomic<int32_t> wrong{0};
      executor.run(
          50, [&](int64_t, int32_t) { wrong += (_mm_getcsr() & ~0x3fu) != (0x1f80u | 0x8040u); });
      const uint32_t after = _mm_getcsr();
      _mm_setcsr(kDefault);
      EXPECT_EQ(wrong, 0);
      EXPECT_EQ(after & ~0x3fu, mode);
    }
  }
}
#endif

}  // namespace
}  // namespace mhc
