#pragma once
// What this machine can do, by loops that do nothing else: the yardstick of `mhc bench`.

#include <cstdint>
#include <span>

#include "base/isa.h"

namespace mhc::tool {

// Memory moves in rows of 6 KiB, a stream of a token at D = 3072 in bf16. A group is what an
// operation does to a token: some rows read, some written, one cache line of each at a time.
inline constexpr int64_t kRowFloats = 6144 / 4;

struct MixJob {
  const float* from = nullptr;
  float* to = nullptr;
  int64_t from_stride = 0;  // floats from a group to the next
  int64_t to_stride = 0;
  int32_t reads = 0;      // rows of a group; groups are contiguous
  int32_t writes = 0;     // may be rows that were just read: to == from
  bool stream = false;    // around the caches
  bool prefetch = false;  // the next group, line by line
};

struct RooflineKernel {
  Isa isa;
  // Groups [begin, end). What comes back depends on everything that was read.
  float (*mix)(const MixJob& job, int64_t begin, int64_t end);
  // `rounds` times kFmaChains independent multiply-adds of vectors.
  float (*multiply_add)(int64_t rounds);
  double flops_per_round;
  // The same with the bf16 dot instruction; null where there is none.
  float (*dot)(int64_t rounds);
  double dot_flops_per_round;
};
std::span<const RooflineKernel> roofline_kernels();  // ascending

}  // namespace mhc::tool
