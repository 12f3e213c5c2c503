#pragma once
// What a call runs on: executor, instruction-set ceiling, tuning table. Passed to every operation;
// the only global is a default one that the API layer makes from the environment once.

#include <cstdint>

#include "base/dtype.h"
#include "base/executor.h"
#include "base/isa.h"

namespace mhc {

// Choices that change speed and never bits. 0 means "the built-in choice for this problem".
struct Tuning {
  int32_t pre_tile_tokens = 0;  // tokens that stay in cache between projection and collapse
  int32_t backward_wave_tokens =
      0;  // tokens between the two phases of pre_backward, a multiple of 128
  int32_t backward_panel_features =
      0;                        // features of one task of its second phase, a multiple of 32
  int32_t tokens_per_task = 0;  // of the streaming operations (post, post_backward, ...)
  int64_t stream_bytes = -1;    // outputs at least this large bypass the caches; -1: built-in
};

// Chooses a Tuning for a problem; null keeps the built-in choices. Implemented by tune/.
struct TuningTable;
using TuningLookup = Tuning (*)(const TuningTable* table, const char* operation, int64_t tokens,
                                int64_t streams, int64_t embedding, int32_t dtype, int32_t workers);

struct Runtime {
  Executor executor = serial_executor();
  Isa ceiling = Isa::kAvx512Bf16;  // kernels above it are not chosen; unavailable ones never are
  // Take the highest row at or below the ceiling even where this processor runs a lower one faster
  // (kernels whose table row says `dot`, see bf16_dot_is_fast). Set when a user or test names the
  // ISA.
  bool exact_isa = false;
  const TuningTable* table = nullptr;
  TuningLookup lookup = nullptr;
  void* stream = nullptr;  // for device backends; unused on the CPU

  Tuning tuning(const char* operation, int64_t tokens, int64_t streams, int64_t embedding,
                int32_t dtype) const {
    if (lookup == nullptr) return {};
    return lookup(table, operation, tokens, streams, embedding, dtype, executor.workers());
  }
};

// The first row of a best-first table that fits the type, the ceiling and this processor; every
// table ends with a scalar row of each type, so there is always one.
template <class Rows>
const auto& choose_kernel(const Rows& rows, DType dtype, const Runtime& runtime) {
  const auto* chosen = &rows[0];
  for (const auto& row : rows) {
    if (row.dtype != dtype) continue;
    chosen = &row;
    if constexpr (requires { row.dot; }) {
      if (row.dot && !runtime.exact_isa && !bf16_dot_is_fast()) continue;
    }
    if (row.isa <= runtime.ceiling && is_available(row.isa)) break;
  }
  return *chosen;
}

}  // namespace mhc
