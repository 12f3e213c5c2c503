#pragma once
// The least time that a call can take on this machine: its bytes at the bandwidth of its own mix of
// reads and writes, or its flops at the rate of the unit that each part can use, whichever is more.

#include "mhc/roofline/measure_roofline.h"
#include "mhc/site_problem.h"

namespace mhc::tool {

struct Floor {
  double memory = 0;  // seconds
  double compute = 0;

  double seconds() const { return memory > compute ? memory : compute; }
  const char* limit() const { return memory > compute ? "memory" : "compute"; }
};

Mix mix_of(BenchOp op, int64_t streams);

// `isa` is that of the kernel. A product that it gives to the bf16 dot unit counts at f32 rate
// where that is faster.
Floor floor_of(BenchOp op, const SiteProblem& problem, Isa isa, const Roofline& roofline);

}  // namespace mhc::tool
