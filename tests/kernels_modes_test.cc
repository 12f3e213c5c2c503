// The floating-point modes of the threads that a call meets: results are the same bits in any of
// them, and afterwards each is as it was.

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/pool.h"
#include "verify/cases_test.h"
#include "verify/executors.h"
#include "verify/problem.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace mhc::verify {
namespace {

constexpr uint32_t kMasks = 0x1f80, kFlush = 0x8040, kDown = 0x2000, kUp = 0x4000;
constexpr uint32_t kTraps = 0x0080 | 0x0200 | 0x0400;  // invalid, division by zero, overflow
constexpr uint32_t kModes[] = {kMasks,          kMasks | kFlush, kMasks | kUp,
                               kMasks | kDown,  kMasks | 0x0040, kMasks | kUp | kDown | kFlush,
                               kMasks & ~kTraps};

uint32_t mode() { return _mm_getcsr() & ~0x3fu; }  // without the flags of what happened

class Mode {
 public:
  explicit Mode(uint32_t mode) : before_(_mm_getcsr()) { _mm_setcsr(mode); }
  ~Mode() { _mm_setcsr(before_); }

 private:
  uint32_t before_;
};

// Three threads per run, each in a mode of its own, that look at it after every task.
struct WatchingExecutor {
  std::atomic<int32_t> changed{0};
  Executor executor() {
    return {this, [](void*) -> int32_t { return 3; }, run};
  }
  static void run(void* self, int64_t tasks, TaskFunction task, void* context) {
    std::atomic<int64_t> next{0};
    std::vector<std::thread> threads;
    threads.reserve(3);
    for (int32_t worker = 0; worker < 3; ++worker) {
      threads.emplace_back([&, worker] {
        const uint32_t own = kModes[1 + worker];
        _mm_setcsr(own);
        for (int64_t i = next++; i < tasks; i = next++) {
          task(context, i, worker);
          if (mode() != own) ++static_cast<WatchingExecutor*>(self)->changed;
        }
      });
    }
    for (std::thread& t : threads) t.join();
  }
};

// The modes of an executor's threads: a task for each, which ends when all have begun.
std::vector<uint32_t> modes_of(const Executor& executor) {
  struct Seen {
    std::vector<std::atomic<uint32_t>> modes;
    std::atomic<size_t> begun = 0;
  } seen{std::vector<std::atomic<uint32_t>>(static_cast<size_t>(executor.workers()))};
  executor.run_function(
      executor.context, executor.workers(),
      [](void* context, int64_t, int32_t worker) {
        Seen& all = *static_cast<Seen*>(context);
        all.modes[static_cast<size_t>(worker)] = mode();
        ++all.begun;
        while (all.begun < all.modes.size()) std::this_thread::yield();
      },
      &seen);
  return {seen.modes.begin(), seen.modes.end()};
}

// Numbers that a rounding mode changes, and such as are flushed or not.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (int32_t op = 0; op < kOps; ++op) {
    for (const DType dtype : {DType::kBF16, DType::kF32, DType::kF16, DType::kF64}) {
      for (const bool tiny : {false, true}) {
        Case c;
        c.op = static_cast<Op>(op);
        c.dims = tiny ? Dims{3, 4, 1030} : Dims{37, 3, 65};  // few tokens: split features
        c.dtype = dtype;
        c.norm_weight = true;
        c.accumulate = true;
        c.packed = !tiny;
        if (tiny) {
          c.value_scale = dtype == DType::kF64 ? 1e-308 : dtype == DType::kF16 ? 1e-7 : 1e-38;
        }
        all.push_back(c);
      }
    }
  }
  return all;
}

class Modes : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override { ASSERT_EQ(missing_isas(), ""); }
  // On whichever thread: the same bits in every mode, and the mode restored.
  void expect_same(const Case& c, Problem* problem, const Runtime& runtime,
                   const std::vector<uint8_t>& want) {
    for (const uint32_t own : std::span(kModes).subspan(1, kSmallTests ? 2 : 6)) {
      Status status;
      uint32_t after = 0;
      {
        const Mode changed(own);
        status = problem->run(runtime);
        after = mode();
      }
      ASSERT_TRUE(status.ok()) << status.message;
      EXPECT_EQ(after, own) << describe(c);
      EXPECT_EQ(problem->bits(), want) << describe(c) << " in mode " << std::hex << own;
    }
  }
};

TEST_P(Modes, ChangeNothing) {
  if (!is_available(GetParam())) return;
  std::unique_ptr<ThreadPool> pool;
  {
    const Mode of_helpers(kModes[5]);
    pool.reset(ThreadPool::create(3, false));
  }
  QueuePool queue(2);
  WatchingExecutor watching;
  const std::vector<uint32_t> before = modes_of(pool->executor());
  for (const Case& c : cases()) {
    const auto problem = Problem::make(c);
    Runtime runtime = runtime_of(GetParam());
    ASSERT_TRUE(problem->run(runtime).ok());
    const std::vector<uint8_t> want = problem->bits();
    expect_same(c, problem.get(), runtime, want);
    runtime.executor = pool->executor();
    expect_same(c, problem.get(), runtime, want);
    runtime.executor = watching.executor();
    expect_same(c, problem.get(), runtime, want);
    runtime.executor = queue.executor();
    queue.run_handler([&] { expect_same(c, problem.get(), runtime, want); });
    if (HasFailure()) return;
  }
  EXPECT_EQ(watching.changed, 0);
  EXPECT_EQ(modes_of(pool->executor()), before);
}

INSTANTIATE_TEST_SUITE_P(Isas, Modes,
                         testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

}  // namespace
}  // namespace mhc::verify
#endif
