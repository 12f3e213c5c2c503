#pragma once
// How often each kernel has been called, by name: the proof of what ran.

#include <cstdint>

namespace mhc {

// Names are string literals that live for ever: <operation>_<isa>_<dtype> of the kernel tables, or
// <operation>_reference_f64. Thread-safe; one call per operation, not per task.
void count_call(const char* kernel);

int64_t calls_of(const char* kernel);
void reset_calls();

// The i-th name that was ever counted, or null past the end.
const char* counted_name(int32_t index);

}  // namespace mhc
