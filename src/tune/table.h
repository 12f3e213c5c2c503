#pragma once
// Measured choices of tiles and blocks, by problem: what a Runtime loads and `mhc tune` writes.
// They change speed, never bits.
//
// A text file, so that it can be read, edited and deleted:
//
//   mhc-tuning 1
//   pre bf16 workers=2 streams=4 embedding=3072 tokens=2048 pre_tile_tokens=16
//
// A row serves calls of its operation, type, streams, embedding and number of workers, from its
// number of tokens up to the next row's. Empty lines and those that begin with # are skipped.

#include <cstdint>

#include "base/runtime.h"
#include "base/status.h"

namespace mhc {

struct TuningRow {
  char operation[24] = {0};
  DType dtype = DType::kF32;
  int32_t workers = 1;
  int64_t streams = 0;
  int64_t embedding = 0;
  int64_t tokens = 0;
  Tuning choice;
};

struct TuningTable {
  static constexpr int32_t kMaxRows = 512;
  TuningRow rows[kMaxRows];
  int32_t count = 0;
};

// Errors name file, line and what was expected there. The table is empty then.
Status load_tuning_table(const char* path, TuningTable* table);
Status save_tuning_table(const char* path, const TuningTable& table);

// A TuningLookup. The built-in choice where no row serves the problem.
Tuning look_up_tuning(const TuningTable* table, const char* operation, int64_t tokens,
                      int64_t streams, int64_t embedding, int32_t dtype, int32_t workers);

}  // namespace mhc
