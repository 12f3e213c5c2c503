#pragma once
// Which processors this process may use.

#include <cstdint>

namespace mhc {

struct Processors {
  static constexpr int32_t kMax = 1024;
  int16_t core[kMax] = {0};  // one allowed logical processor of each physical core, ascending
  int32_t cores = 1;         // physical cores within the affinity mask
  int32_t recommended_threads =
      1;  // cores, or what the container's processor quota is worth if less
};

Processors usable_processors();

// Moves the calling thread to the index-th core, counted around the list.
void pin_this_thread(const Processors& processors, int32_t index);

}  // namespace mhc
