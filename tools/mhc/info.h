#pragma once
// `mhc info` in two steps: what there is, as JSON, and its text.

#include "mhc/machine.h"

namespace mhc::tool {

Json collect_info();
void print_info(const Json& info);

}  // namespace mhc::tool
