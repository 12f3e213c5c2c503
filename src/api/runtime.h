#pragma once
// The object behind mhc_runtime, and the default one.

#include <mhc/runtime.h>

#include "base/capped_executor.h"
#include "base/pool.h"
#include "base/runtime.h"
#include "base/status.h"
#include "tune/table.h"

struct mhc_runtime {
  mhc::Runtime runtime;
  mhc::ThreadPool* pool = nullptr;  // owned; null with an executor of the caller's
  mhc::CappedExecutor capped;
  mhc::TuningTable table;

  mhc_runtime() = default;
  mhc_runtime(const mhc_runtime&) = delete;
  mhc_runtime& operator=(const mhc_runtime&) = delete;
  ~mhc_runtime() { delete pool; }
};

namespace mhc::api {

// Null stands for the default runtime, made at the first use; its error when the environment is
// unusable.
Status to_runtime(const char* operation, const mhc_runtime* runtime, const Runtime** usable);

}  // namespace mhc::api
