#include "base/counters.h"

#include <atomic>
#include <cstring>

namespace mhc {
namespace {

// Open addressing; a slot is taken once and for ever by whoever sets its name first.
constexpr uint32_t kSlots = 2048;

struct Slot {
  std::atomic<const char*> name{nullptr};
  std::atomic<int64_t> calls{0};
};

constinit Slot slots[kSlots];

uint32_t hash_of(const char* s) {  // FNV-1a
  uint32_t h = 2166136261u;
  for (; *s != '\0'; ++s) h = (h ^ static_cast<uint8_t>(*s)) * 16777619u;
  return h;
}

// The slot of a name, or null: when it has none and `take` is false, or when all are taken.
Slot* find(const char* name, bool take) {
  uint32_t index = hash_of(name) % kSlots;
  for (uint32_t probe = 0; probe < kSlots; ++probe, index = (index + 1) % kSlots) {
    Slot& slot = slots[index];
    const char* found = slot.name.load(std::memory_order_acquire);
    if (found == nullptr) {
      if (!take) return nullptr;
      if (slot.name.compare_exchange_strong(found, name, std::memory_order_acq_rel)) return &slot;
    }
    if (std::strcmp(found, name) == 0) return &slot;
  }
  return nullptr;
}

}  // namespace

void count_call(const char* kernel) {
  if (Slot* slot = find(kernel, true)) slot->calls.fetch_add(1, std::memory_order_relaxed);
}

int64_t calls_of(const char* kernel) {
  const Slot* slot = find(kernel, false);
  return slot == nullptr ? 0 : slot->calls.load(std::memory_order_relaxed);
}

void reset_calls() {
  for (Slot& slot : slots) slot.calls.store(0, std::memory_order_relaxed);
}

const char* counted_name(int32_t index) {
  for (const Slot& slot : slots) {
    const char* name = slot.name.load(std::memory_order_acquire);
    if (name != nullptr && index-- == 0) return name;
  }
  return nullptr;
}

}  // namespace mhc
