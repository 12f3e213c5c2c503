#pragma once
// Keeps the calling thread on one processor, as a pool keeps its helpers; undone at the end.

#include <sched.h>

#include "base/processors.h"

namespace mhc::tool {

class PinnedCaller {
 public:
  // With more threads than cores nobody is pinned.
  explicit PinnedCaller(int32_t threads) {
    const Processors processors = usable_processors();
    if (threads > processors.cores) return;
    pinned_ = sched_getaffinity(0, sizeof(before_), &before_) == 0;
    if (pinned_) pin_this_thread(processors, 0);
  }
  ~PinnedCaller() {
    if (pinned_) sched_setaffinity(0, sizeof(before_), &before_);
  }
  PinnedCaller(const PinnedCaller&) = delete;
  PinnedCaller& operator=(const PinnedCaller&) = delete;

 private:
  cpu_set_t before_;
  bool pinned_ = false;
};

}  // namespace mhc::tool
