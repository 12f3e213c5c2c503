#pragma once
// At most so many workers of somebody else's executor.

#include <cstdint>

#include "base/executor.h"

namespace mhc {

// The inner executor gets one task per worker that may help; these share the call's tasks out.
struct CappedExecutor {
  Executor inner;
  int32_t cap = 1;

  // Refers to this object.
  Executor executor();
};

}  // namespace mhc
