#pragma once
// Repeated timings and their middle.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace mhc::tool {

inline double now() {  // seconds
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Timing {
  double median = 0;  // seconds
  double low = 0;     // a quarter of the calls took less
  double high = 0;    // a quarter took more
  int64_t repetitions = 0;
};

inline Timing timing_of(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const size_t n = seconds.size();
  if (n == 0) return {};
  return {n % 2 == 1 ? seconds[n / 2] : (seconds[n / 2 - 1] + seconds[n / 2]) / 2, seconds[n / 4],
          seconds[n - 1 - n / 4], static_cast<int64_t>(n)};
}

struct Repeat {
  int64_t at_least = 7;
  int64_t at_most = 2000;
  double seconds = 0.4;  // no further repetition is begun after them
  int64_t warm_up = 2;
};

// f(i) for i = 0, 1, ...; the first `warm_up` calls do not count.
template <class F>
Timing measure(const Repeat& repeat, const F& f) {
  std::vector<double> seconds;
  int64_t i = 0;
  for (; i < repeat.warm_up; ++i) f(i);
  const double begin = now();
  double last = begin;
  for (int64_t k = 0; k < repeat.at_most; ++k, ++i) {
    if (k >= repeat.at_least && last - begin >= repeat.seconds) break;
    const double start = now();
    f(i);
    last = now();
    seconds.push_back(last - start);
  }
  return timing_of(std::move(seconds));
}

}  // namespace mhc::tool
