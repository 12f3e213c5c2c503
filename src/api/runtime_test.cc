// Runtimes: options, environment, executors, counters; and what a call's results may not depend on.

#include <gtest/gtest.h>
#include <mhc/mhc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "api/operation_list_test.h"

namespace mhc::api {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#elif defined(__has_feature)
constexpr bool kThreadSanitizer = __has_feature(thread_sanitizer);
#else
constexpr bool kThreadSanitizer = false;
#endif

mhc_runtime_options options_of(int32_t threads = 0, const char* isa = nullptr) {
  mhc_runtime_options options{};
  options.size = sizeof(options);
  options.num_threads = threads;
  options.isa = isa;
  return options;
}

struct Destroy {
  void operator()(mhc_runtime* runtime) const { mhc_runtime_destroy(runtime); }
};
using RuntimePointer = std::unique_ptr<mhc_runtime, Destroy>;

RuntimePointer create(const mhc_runtime_options& options) {
  mhc_runtime* runtime = nullptr;
  EXPECT_EQ(mhc_runtime_create(&options, &runtime), MHC_OK) << mhc_last_error();
  return RuntimePointer(runtime);
}

void expect_refused(const mhc_runtime_options& options, const std::string& message,
                    mhc_status status = MHC_INVALID_ARGUMENT) {
  mhc_runtime* runtime = nullptr;
  EXPECT_EQ(mhc_runtime_create(&options, &runtime), status);
  EXPECT_EQ(std::string(mhc_last_error()), message);
  EXPECT_EQ(runtime, nullptr);
}

int32_t workers_of(const mhc_runtime* runtime) {
  int32_t workers = -1;
  EXPECT_EQ(mhc_runtime_workers(runtime, &workers), MHC_OK) << mhc_last_error();
  return workers;
}

mhc_isa isa_of(const mhc_runtime* runtime) {
  mhc_isa isa = -1;
  EXPECT_EQ(mhc_runtime_isa(runtime, &isa), MHC_OK) << mhc_last_error();
  return isa;
}

TEST(Runtime, ThreadsAndIsaAreAsAskedFor) {
  for (int32_t threads : {1, 2, 5})
    EXPECT_EQ(workers_of(create(options_of(threads)).get()), threads);
  EXPECT_GE(workers_of(create(options_of()).get()), 1);
  for (mhc_isa isa = 0; const char* name = mhc_isa_name(isa); ++isa) {
    const RuntimePointer runtime = create(options_of(1, name));
    if (mhc_isa_available(isa)) {
      EXPECT_EQ(isa_of(runtime.get()), isa);
    } else {
      EXPECT_LT(isa_of(runtime.get()), isa);
    }
  }
}

TEST(Runtime, BadOptions) {
  mhc_runtime* runtime = nullptr;
  EXPECT_EQ(mhc_runtime_create(nullptr, &runtime), MHC_INVALID_ARGUMENT);
  EXPECT_STREQ(mhc_last_error(), "runtime_create: options: expected a pointer, got null");
  mhc_runtime_options good = options_of(1);
  EXPECT_EQ(mhc_runtime_create(&good, nullptr), MHC_INVALID_ARGUMENT);
  EXPECT_STREQ(mhc_last_error(), "runtime_create: runtime: expected a pointer, got null");
  mhc_runtime_options o = good;
  o.size = 8;
  expect_refused(o, "runtime_create: options.size: expected " + std::to_string(sizeof(o)) +
                        ", the size of mhc_runtime_options, got 8");
  expect_refused(options_of(-1), "runtime_create: num_threads: expected 0 to 1024, got -1");
  expect_refused(options_of(1025), "runtime_create: num_threads: expected 0 to 1024, got 1025");
  expect_refused(options_of(1, "sse9"),
                 "runtime_create: isa: expected scalar, avx2, avx512 or avx512bf16, got \"sse9\"");
  o = good;
  o.pin = 3;
  expect_refused(o, "runtime_create: pin: expected 0 or 1, got 3");
  o = good;
  o.tuning = "/no/such/file";
  expect_refused(o, "tuning table /no/such/file: No such file or directory", MHC_BAD_INPUT);
  o = good;
  o.executor.workers = [](void*) { return int32_t{2}; };
  expect_refused(o, "runtime_create: executor.run: expected a pointer, got null");
  o.executor.run = [](void*, int64_t, mhc_task, void*) {};
  o.executor.workers = nullptr;
  expect_refused(o, "runtime_create: executor.workers: expected a pointer, got null");
  o.executor.workers = [](void*) { return int32_t{0}; };
  expect_refused(o, "runtime_create: executor.workers: expected at least 1 worker, got 0");
  mhc_runtime_destroy(nullptr);
}

TEST(Runtime, QueriesRefuseNull) {
  EXPECT_EQ(mhc_runtime_workers(nullptr, nullptr), MHC_INVALID_ARGUMENT);
  EXPECT_STREQ(mhc_last_error(), "runtime_workers: workers: expected a pointer, got null");
  EXPECT_EQ(mhc_runtime_isa(nullptr, nullptr), MHC_INVALID_ARGUMENT);
  EXPECT_STREQ(mhc_last_error(), "runtime_isa: isa: expected a pointer, got null");
  EXPECT_EQ(mhc_runtime_options_from_environment(nullptr), MHC_INVALID_ARGUMENT);
  EXPECT_STREQ(mhc_last_error(),
               "runtime_options_from_environment: options: expected a pointer, got null");
}

// ---- Environment: each case in a process of its own, since the default runtime is made once.
// -----------------

class Environment : public testing::Test {
 protected:
  Environment() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

// Exits with 0 when the first call with the default runtime gives this.
[[noreturn]] void first_call(const char* variable, const char* value, mhc_status status,
                             const std::string& message, int32_t workers = 0, mhc_isa isa = -1) {
  for (const char* name : {"MHC_ISA", "MHC_NUM_THREADS", "MHC_TUNING"}) unsetenv(name);
  setenv(variable, value, 1);
  const auto op = make_operation("post", Sizes{});
  bool right = op->call(nullptr) == status && mhc_last_error() == message;
  right = right && op->outputs_untouched() == (status != MHC_OK);
  right = right && op->call(nullptr) == status;  // and every later one
  if (!right) std::fprintf(stderr, "%s\n", mhc_last_error());
  if (workers > 0) right = right && workers_of(nullptr) == workers;
  if (isa >= 0) right = right && isa_of(nullptr) == isa;
  std::_Exit(right ? 0 : 1);
}

TEST_F(Environment, Threads) {
  EXPECT_EXIT(first_call("MHC_NUM_THREADS", "3", MHC_OK, "", 3), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(first_call("MHC_NUM_THREADS", "", MHC_OK, ""), testing::ExitedWithCode(0), "");
  for (const char* bad : {"0", "-1", "two", "2x", "1025", "99999999999999999999", " "}) {
    const std::string message =
        std::string(
            "post: default runtime: MHC_NUM_THREADS: expected a number from 1 to 1024, got \"") +
        bad + "\"";
    EXPECT_EXIT(first_call("MHC_NUM_THREADS", bad, MHC_BAD_INPUT, message),
                testing::ExitedWithCode(0), "")
        << bad;
  }
}

TEST_F(Environment, Isa) {
  EXPECT_EXIT(first_call("MHC_ISA", "scalar", MHC_OK, "", 0, MHC_ISA_SCALAR),
              testing::ExitedWithCode(0), "");
  if (mhc_isa_available(MHC_ISA_AVX2)) {
    EXPECT_EXIT(first_call("MHC_ISA", "avx2", MHC_OK, "", 0, MHC_ISA_AVX2),
                testing::ExitedWithCode(0), "");
  }
  for (const char* bad : {"AVX2", "neon", "avx512,avx2"}) {
    const std::string message =
        std::string(
            "post: default runtime: MHC_ISA: expected scalar, avx2, avx512 or avx512bf16, got \"") +
        bad + "\"";
    EXPECT_EXIT(first_call("MHC_ISA", bad, MHC_BAD_INPUT, message), testing::ExitedWithCode(0), "")
        << bad;
  }
}

TEST_F(Environment, Tuning) {
  EXPECT_EXIT(
      first_call("MHC_TUNING", "/no/such/file", MHC_BAD_INPUT,
                 "post: default runtime: tuning table /no/such/file: No such file or directory"),
      testing::ExitedWithCode(0), "");
  const std::string path = testing::TempDir() + "mhc_runtime_tuning.txt";
  std::ofstream(path)
      << "mhc-tuning 1\npost bf16 workers=1 streams=4 embedding=10 tokens=1 tokens_per_task=2\n";
  EXPECT_EXIT(first_call("MHC_TUNING", path.c_str(), MHC_OK, ""), testing::ExitedWithCode(0), "");
  std::remove(path.c_str());
}

TEST_F(Environment, OptionsFromTheEnvironment) {
  const auto check = [] {
    setenv("MHC_ISA", "avx2", 1);
    setenv("MHC_NUM_THREADS", "7", 1);
    setenv("MHC_TUNING", "/some/file", 1);
    mhc_runtime_options options = options_of();
    bool right = mhc_runtime_options_from_environment(&options) == MHC_OK &&
                 options.num_threads == 7 && std::strcmp(options.isa, "avx2") == 0 &&
                 std::strcmp(options.tuning, "/some/file") == 0;
    for (const char* name : {"MHC_ISA", "MHC_NUM_THREADS", "MHC_TUNING"}) unsetenv(name);
    right = right && mhc_runtime_options_from_environment(&options) == MHC_OK &&
            options.num_threads == 0 && options.isa == nullptr && options.tuning == nullptr;
    std::_Exit(right ? 0 : 1);
  };
  EXPECT_EXIT(check(), testing::ExitedWithCode(0), "");
}

// ---- Calls
// --------------------------------------------------------------------------------------------------

// Inputs that differ from element to element; small exponents, so that nothing overflows.
void fill_inputs(Operation* op) {
  uint32_t state = 12345;
  for (const Argument& a : op->arguments) {
    if (a.output) continue;
    const bool wide = a.tensor->dtype == MHC_F32;
    for (int64_t i = 0; i < a.bytes; i += wide ? 4 : 2) {
      state = state * 1664525u + 1013904223u;
      const float value = static_cast<float>(state >> 8) / 16777216.0f - 0.25f;
      uint32_t bits;
      std::memcpy(&bits, &value, 4);
      const uint16_t half = static_cast<uint16_t>(bits >> 16);
      std::memcpy(a.memory + i, wide ? static_cast<const void*>(&bits) : &half, wide ? 4 : 2);
    }
  }
}

// Every output's bytes, in order.
std::vector<unsigned char> run(const std::string& name, const Sizes& sizes,
                               const mhc_runtime* runtime, bool own_workspace = true) {
  const auto op = make_operation(name, sizes);
  fill_inputs(op.get());
  std::vector<unsigned char> memory;
  if (op->workspace != nullptr && own_workspace) {
    // A workspace for the runtime, of any size that it may ask for: the message names it.
    *op->workspace = {nullptr, 0};
    op->call(runtime);
    const std::string message = mhc_last_error();
    const size_t at = message.find_first_of("0123456789");
    memory.resize(std::stoul(message.substr(at)));
    *op->workspace = {memory.data(), memory.size()};
  }
  EXPECT_EQ(op->call(runtime), MHC_OK) << mhc_last_error();
  EXPECT_TRUE(op->outputs_written()) << name;
  std::vector<unsigned char> bytes;
  for (const Argument& a : op->arguments) {
    if (a.output) bytes.insert(bytes.end(), a.memory, a.memory + a.bytes);
  }
  return bytes;
}

Sizes larger() {
  Sizes sizes;
  sizes.tokens = 300;
  sizes.embedding = 70;
  return sizes;
}

// An executor of the test's own: as many threads as workers, made for each call, tasks from the
// last to the first.
struct Backwards {
  int32_t workers = 3;
  static int32_t count(void* self) { return static_cast<Backwards*>(self)->workers; }
  static void run(void* self, int64_t tasks, mhc_task task, void* context) {
    const int32_t workers = static_cast<Backwards*>(self)->workers;
    std::vector<std::thread> threads;
    for (int32_t w = 0; w < workers; ++w) {
      threads.emplace_back([=] {
        for (int64_t i = tasks - 1 - w; i >= 0; i -= workers) task(context, i, w);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

class EveryOperation : public testing::TestWithParam<std::string> {};

TEST_P(EveryOperation, SameBitsForAnyThreadsAndExecutor) {
  const RuntimePointer one = create(options_of(1));
  const std::vector<unsigned char> expected = run(GetParam(), larger(), one.get());
  for (int32_t threads : {2, 3, 4, 7}) {
    const RuntimePointer runtime = create(options_of(threads));
    EXPECT_EQ(run(GetParam(), larger(), runtime.get()), expected) << threads;
  }
  Backwards backwards;
  mhc_runtime_options options = options_of();
  options.executor = {&backwards, Backwards::count, Backwards::run};
  EXPECT_EQ(run(GetParam(), larger(), create(options).get()), expected);
  options.num_threads = 2;
  const RuntimePointer capped = create(options);
  EXPECT_EQ(workers_of(capped.get()), 2);
  EXPECT_EQ(run(GetParam(), larger(), capped.get()), expected);
}

TEST_P(EveryOperation, TheCeilingDecidesWhichKernelRuns) {
  for (mhc_isa isa = 0; const char* name = mhc_isa_name(isa); ++isa) {
    if (!mhc_isa_available(isa)) continue;
    const RuntimePointer runtime = create(options_of(1, name));
    mhc_reset_calls();
    run(GetParam(), larger(), runtime.get());
    // The kernels counted are of this ceiling or below, the highest that there are for it.
    int64_t calls = 0;
    for (int32_t i = 0; i < mhc_kernel_count(); ++i) {
      const mhc_kernel_info info = mhc_kernel_at(i);
      if (mhc_calls_of(info.name) == 0) continue;
      calls += mhc_calls_of(info.name);
      EXPECT_LE(info.isa, isa) << info.name;
      if (isa == MHC_ISA_SCALAR) {
        EXPECT_EQ(info.isa, MHC_ISA_SCALAR) << info.name;
      }
    }
    EXPECT_EQ(calls, 1) << name;
  }
}

TEST_P(EveryOperation, SeveralThreadsMayCallWithOneRuntime) {
  const RuntimePointer runtime = create(options_of(3));
  const std::vector<unsigned char> expected = run(GetParam(), larger(), runtime.get());
  std::vector<std::thread> threads;
  std::vector<int> same(4);
  for (size_t i = 0; i < same.size(); ++i) {
    threads.emplace_back(
        [&, i] { same[i] = run(GetParam(), larger(), runtime.get()) == expected; });
  }
  for (std::thread& thread : threads) thread.join();
  for (int s : same) EXPECT_EQ(s, 1);
}

// The helpers of a runtime do not exist in a forked child, which must neither hang nor differ.
TEST_P(EveryOperation, AForkedChildGetsTheSameBits) {
  if (kThreadSanitizer) return;  // threads made after a fork are beyond it
  const RuntimePointer runtime = create(options_of(3));
  const std::vector<unsigned char> expected = run(GetParam(), larger(), runtime.get());
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    std::_Exit(run(GetParam(), larger(), runtime.get()) == expected ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(Operations, EveryOperation, testing::ValuesIn(operation_names()),
                         [](const auto& test) { return test.param; });

TEST(LastError, IsOfItsThreadAndStays) {
  mhc_spec spec;
  ASSERT_EQ(mhc_spec_preset("nonsense", &spec), MHC_INVALID_ARGUMENT);
  const std::string mine = mhc_last_error();
  std::thread([] {
    EXPECT_STREQ(mhc_last_error(), "");
    EXPECT_EQ(mhc_spec_preset(nullptr, nullptr), MHC_INVALID_ARGUMENT);
  }).join();
  EXPECT_EQ(mhc_last_error(), mine);
  ASSERT_EQ(mhc_spec_preset("liger", &spec), MHC_OK);
  EXPECT_EQ(mhc_last_error(), mine);
}

TEST(KernelList, EveryTypeHasAScalarKernelAndNamesAreUnique) {
  std::set<std::string> names;
  std::set<std::pair<std::string, mhc_dtype>> all, scalar;
  ASSERT_GT(mhc_kernel_count(), 0);
  for (int32_t i = 0; i < mhc_kernel_count(); ++i) {
    const mhc_kernel_info info = mhc_kernel_at(i);
    ASSERT_NE(info.name, nullptr);
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_EQ(info.available, mhc_isa_available(info.isa));
    all.insert({info.operation, info.dtype});
    if (info.isa == MHC_ISA_SCALAR) scalar.insert({info.operation, info.dtype});
  }
  EXPECT_EQ(all, scalar);
  EXPECT_EQ(mhc_kernel_at(-1).name, nullptr);
  EXPECT_EQ(mhc_kernel_at(mhc_kernel_count()).name, nullptr);
}

}  // namespace
}  // namespace mhc::api
