#pragma once
// MHC_ISA, MHC_NUM_THREADS and MHC_TUNING.

#include <mhc/runtime.h>

#include "base/isa.h"
#include "base/status.h"

namespace mhc::api {

// Messages begin with the variable's name. Reads the environment, which no other thread may be
// changing.
Status read_environment(mhc_runtime_options* options);

Status parse_isa_option(StatusCode code, const char* where, const char* name, Isa* isa);

}  // namespace mhc::api
