#pragma once
// Measures the choices of a Tuning for one operation, one after the other.

#include <string>
#include <vector>

#include "base/runtime.h"
#include "mhc/rotating_site.h"
#include "tune/table.h"

namespace mhc::tool {

// A choice of Tuning that an operation reads, and what is tried for it.
struct Knob {
  BenchOp op;
  const char* name;
  std::vector<int64_t> values;
  void (*set)(Tuning* tuning, int64_t value);
};
std::vector<Knob> knobs_of(BenchOp op);

struct TuneResult {
  TuningRow row;
  double builtin_seconds = 0;  // of a call, both in the same rounds
  double chosen_seconds = 0;
  std::string changes;  // "pre_tile_tokens 32", or "" where the built-in choices stay
};

// next(knob) is called before each knob is measured. `runtime` brings the executor; its table is
// not used.
TuneResult tune_operation(BenchOp op, RotatingSite* memory, const Runtime& runtime,
                          void (*next)(void* context, const Knob& knob), void* context);

}  // namespace mhc::tool
