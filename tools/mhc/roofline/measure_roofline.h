#pragma once
// The rates that this process reaches on a number of threads.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/executor.h"
#include "base/isa.h"
#include "mhc/memory.h"

namespace mhc::tool {

// Rows read for so many rows written, of what an operation does to a token.
struct Mix {
  int32_t reads = 1;
  int32_t writes = 0;
  bool operator==(const Mix&) const = default;
};

// Bytes read and written by the program, per second. Ordinary stores fetch the line first, so that
// they show less; 0 where a way does not exist.
struct Bandwidth {
  Mix mix;
  double ordinary = 0;
  double streaming = 0;
  double in_place = 0;  // writes go over what was just read
  double best() const;
};

struct Rate {
  Isa isa = Isa::kScalar;
  double f32 = 0;       // flops per second of f32 multiply-adds
  double bf16_dot = 0;  // of the bf16 dot instruction, 0 without
};

struct Roofline {
  int32_t threads = 1;
  std::vector<Bandwidth> bandwidths;
  std::vector<Rate> rates;

  double bandwidth(Mix mix) const;
  // A ceiling for code of this ISA, which may use anything below it.
  double f32(Isa isa) const;
  double bf16_dot(Isa isa) const;
};

// How far two measurements of the same thing lie apart, as a share of the larger: what one hears of
// the neighbours.
double drift(const Roofline& before, const Roofline& after);

// The memory is larger than the caches and has been written to.
Roofline measure_roofline(const Executor& executor, const std::vector<Mix>& mixes,
                          const Memory& memory, int64_t repetitions);

nlohmann::ordered_json to_json(const Roofline& roofline);

}  // namespace mhc::tool
