#pragma once
// Instruction sets: which are known, which this processor has, and how they are called.

#include <cstdint>

namespace mhc {

// Ascending: a ceiling admits everything at or below it.
enum class Isa : int32_t { kScalar = 0, kAvx2 = 1, kAvx512 = 2, kAvx512Bf16 = 3 };
inline constexpr int32_t kIsas = 4;

constexpr const char* name_of(Isa isa) {
  constexpr const char* kName[kIsas] = {"scalar", "avx2", "avx512", "avx512bf16"};
  return kName[static_cast<int32_t>(isa)];
}

// What the name means in terms of processor features, for `mhc info`.
const char* description_of(Isa isa);

bool parse_isa(const char* name, Isa* isa);

// Whether this processor and operating system run code compiled for it. Detected once.
bool is_available(Isa isa);

Isa best_available_isa();

// On these processors one vdpbf16ps costs more than the two FMAs it replaces (measured: half the
// FMA rate on Sapphire and Emerald Rapids, twice on Zen 4), so the projection prefers f32 there.
bool bf16_dot_is_fast();

}  // namespace mhc
