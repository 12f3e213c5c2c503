#pragma once
// A counter that one thread waits on: it spins briefly, since the next call is often near, then
// sleeps.

#include <atomic>
#include <cstdint>

namespace mhc {

class Bell {
 public:
  void ring();

  // Returns the count as soon as it differs from `seen`. One waiter at a time.
  uint32_t wait(uint32_t seen);

  uint32_t count() const { return count_.load(std::memory_order_acquire); }

  // Only while nobody waits or rings.
  void reset();

 private:
  std::atomic<uint32_t> count_{0};
  std::atomic<uint32_t> sleeping_{0};
};

}  // namespace mhc
