#pragma once
// Named sets of conventions, each that of a public implementation (docs/conventions.md).

#include "manifold/spec.h"

namespace mhc {

struct Preset {
  const char* name;
  Spec spec;
};

// Null when nothing has this name; in order of the list, null past the end.
const Preset* find_preset(const char* name);
const Preset* preset_at(int32_t index);

}  // namespace mhc
