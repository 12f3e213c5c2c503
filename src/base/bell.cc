#include "base/bell.h"

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#else
#include <sched.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mhc {
namespace {

constexpr int32_t kSpins = 300;  // 3 to 15 us, about what waking a sleeper costs

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

#if defined(__linux__)
// Not std::atomic::wait: its table of waiters is a process-wide symbol of every library that uses
// it.
static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

void sleep_while_equal(std::atomic<uint32_t>* word, uint32_t value) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
void wake(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}
#else
void sleep_while_equal(std::atomic<uint32_t>*, uint32_t) { sched_yield(); }
void wake(std::atomic<uint32_t>*) {}
#endif

}  // namespace

// Sequential consistency: either ring() sees sleeping_, or the sleeper sees the new count.
void Bell::ring() {
  count_.fetch_add(1);
  if (sleeping_.load() != 0) wake(&count_);
}

uint32_t Bell::wait(uint32_t seen) {
  for (int32_t i = 0; i < kSpins; ++i) {
    const uint32_t now = count();
    if (now != seen) return now;
    pause();
  }
  sleeping_.store(1);
  uint32_t now = count_.load();
  while (now == seen) {
    sleep_while_equal(&count_, seen);
    now = count_.load();
  }
  sleeping_.store(0);
  return now;
}

void Bell::reset() {
  count_.store(0);
  sleeping_.store(0);
}

}  // namespace mhc
