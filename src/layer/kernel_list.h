#pragma once
// The rows of every operation's table, as one list.

#include <cstdint>

#include "base/dtype.h"
#include "base/isa.h"

namespace mhc {

struct KernelRow {
  const char* operation;
  const char* name;
  Isa isa;
  DType dtype;
  bool dot = false;  // uses the bf16 dot instruction (choose_kernel)
};

int32_t kernel_count();
KernelRow kernel_at(int32_t index);  // 0 <= index < kernel_count()

}  // namespace mhc
