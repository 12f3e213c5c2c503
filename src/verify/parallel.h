#pragma once
// Tokens spread over threads of our own, for expectations of large problems.

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace mhc::verify {

inline int32_t expectation_threads() {
  const unsigned threads = std::thread::hardware_concurrency();
  return threads == 0 ? 1 : static_cast<int32_t>(threads < 64 ? threads : 64);
}

// f(index, worker) for every index below count, on at most expectation_threads() threads; `work` is
// a rough number of operations in all, below which a thread is not worth its start.
template <class F>
void parallel_for(int64_t count, double work, const F& f) {
  const int32_t threads = work < 1e7 ? 1 : expectation_threads();
  std::atomic<int64_t> next{0};
  const auto run = [&](int32_t worker) {
    for (int64_t i = next++; i < count; i = next++) f(i, worker);
  };
  std::vector<std::thread> others;
  for (int32_t w = 1; w < threads; ++w) others.emplace_back(run, w);
  run(0);
  for (std::thread& other : others) other.join();
}

}  // namespace mhc::verify
