#include "base/counters.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace mhc {
namespace {

TEST(Counters, CountsByContentOfTheName) {
  const int64_t before = calls_of("counters_test_a");
  count_call("counters_test_a");
  const std::string same = "counters_test_a";  // another address
  EXPECT_EQ(calls_of(same.c_str()), before + 1);
  EXPECT_EQ(calls_of("counters_test_never"), 0);
}

TEST(Counters, AskingDoesNotRegister) {
  EXPECT_EQ(calls_of("counters_test_only_asked"), 0);
  for (int32_t i = 0; const char* name = counted_name(i); ++i) {
    EXPECT_STRNE(name, "counters_test_only_asked");
  }
}

TEST(Counters, NamesAreListedOnce) {
  count_call("counters_test_listed");
  count_call("counters_test_listed");
  int32_t found = 0;
  int32_t index = 0;
  for (; const char* name = counted_name(index); ++index)
    found += std::string(name) == "counters_test_listed";
  EXPECT_EQ(found, 1);
  EXPECT_EQ(counted_name(index), nullptr);
}

TEST(Counters, ResetLeavesNothing) {
  count_call("counters_test_reset");
  reset_calls();
  EXPECT_EQ(calls_of("counters_test_reset"), 0);
}

TEST(Counters, ThreadsLoseNoCall) {
  static const char* const kNames[] = {"counters_test_t0", "counters_test_t1", "counters_test_t2"};
  constexpr int32_t kThreads = 8;
  constexpr int32_t kCalls = 3000;
  for (const char* name : kNames) ASSERT_EQ(calls_of(name), 0);
  std::vector<std::thread> threads;
  for (int32_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([i] {
      for (int32_t k = 0; k < kCalls; ++k) count_call(kNames[(i + k) % 3]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const char* name : kNames) EXPECT_EQ(calls_of(name), kThreads * kCalls / 3);
}

}  // namespace
}  // namespace mhc
