#include "base/isa.h"

#include <cstring>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

namespace mhc {
namespace {

struct Processor {
  bool available[kIsas] = {true, false, false, false};
  bool bf16_dot_is_fast = false;
};

#if defined(__x86_64__) || defined(__i386__)

struct Leaf {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;

  Leaf(uint32_t leaf, uint32_t subleaf) {
    if (__get_cpuid_count(leaf, subleaf, &eax, &ebx, &ecx, &edx) == 0) eax = ebx = ecx = edx = 0;
  }
};

constexpr bool has_bits(uint64_t value, uint64_t bits) { return (value & bits) == bits; }

// Which register files the operating system saves and restores: bit 1 xmm, 2 ymm, 5 to 7 the masks
// and zmm.
uint64_t saved_state(const Leaf& basic) {
  if (!has_bits(basic.ecx, uint64_t{1} << 27)) return 0;  // OSXSAVE
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

bool is_amd() {
  const Leaf vendor(0, 0);
  char name[12];
  std::memcpy(name, &vendor.ebx, 4);
  std::memcpy(name + 4, &vendor.edx, 4);
  std::memcpy(name + 8, &vendor.ecx, 4);
  return std::memcmp(name, "AuthenticAMD", 12) == 0;
}

Processor detect() {
  constexpr uint64_t kYmm = 0x06;
  constexpr uint64_t kZmm = 0xe6;
  constexpr uint64_t kFmaAvxF16c = (1u << 12) | (1u << 28) | (1u << 29);           // 1.ecx
  constexpr uint64_t kAvx2 = 1u << 5;                                              // 7.ebx
  constexpr uint64_t kAvx512 = (1u << 16) | (1u << 17) | (1u << 28) | (1u << 30);  // F, DQ, CD, BW
  constexpr uint64_t kAvx512Vl = 1u << 31;
  constexpr uint64_t kAvx512Bf16 = 1u << 5;  // 7.1.eax

  const Leaf basic(1, 0);
  const Leaf extended(7, 0);
  const uint64_t state = saved_state(basic);
  Processor p;
  bool* has = p.available;
  has[1] =
      has_bits(basic.ecx, kFmaAvxF16c) && has_bits(extended.ebx, kAvx2) && has_bits(state, kYmm);
  has[2] = has[1] && has_bits(extended.ebx, kAvx512 | kAvx512Vl) && has_bits(state, kZmm);
  has[3] = has[2] && extended.eax >= 1 && has_bits(Leaf(7, 1).eax, kAvx512Bf16);
  p.bf16_dot_is_fast = has[3] && is_amd();
  // Hypervisors hide flags of instructions that do execute; whoever configures the build may know
  // better.
#if defined(MHC_ASSUME_ISA_AVX2)
  has[1] = true;
#endif
#if defined(MHC_ASSUME_ISA_AVX512)
  has[1] = has[2] = true;
#endif
#if defined(MHC_ASSUME_ISA_AVX512BF16)
  has[1] = has[2] = has[3] = true;
#endif
  return p;
}

#else

Processor detect() { return {}; }

#endif

const Processor& processor() {
  static const Processor kProcessor = detect();
  return kProcessor;
}

}  // namespace

const char* description_of(Isa isa) {
  constexpr const char* kDescription[kIsas] = {
      "plain C++, no vector instructions asked for",
      "AVX2, FMA and F16C",
      "AVX-512 F, BW, DQ, VL and CD",
      "AVX-512 with BF16 dot products",
  };
  return kDescription[static_cast<int32_t>(isa)];
}

bool parse_isa(const char* name, Isa* isa) {
  for (int32_t i = 0; name != nullptr && i < kIsas; ++i) {
    if (std::strcmp(name, name_of(static_cast<Isa>(i))) == 0) {
      *isa = static_cast<Isa>(i);
      return true;
    }
  }
  return false;
}

bool is_available(Isa isa) { return processor().available[static_cast<int32_t>(isa)]; }

Isa best_available_isa() {
  int32_t best = kIsas - 1;
  while (best > 0 && !is_available(static_cast<Isa>(best))) --best;
  return static_cast<Isa>(best);
}

bool bf16_dot_is_fast() { return processor().bf16_dot_is_fast; }

}  // namespace mhc
