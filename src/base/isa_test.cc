#include "base/isa.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace mhc {
namespace {

TEST(Isa, NamesRoundTrip) {
  for (int32_t i = 0; i < kIsas; ++i) {
    const Isa isa = static_cast<Isa>(i);
    Isa parsed = isa == Isa::kScalar ? Isa::kAvx2 : Isa::kScalar;
    ASSERT_TRUE(parse_isa(name_of(isa), &parsed));
    EXPECT_EQ(parsed, isa);
    EXPECT_NE(std::string(description_of(isa)), "");
  }
}

TEST(Isa, UnknownNamesAreRefused) {
  for (const char* name : {"", "AVX2", "avx", "avx512 ", "sse2"}) {
    Isa parsed = Isa::kAvx512;
    EXPECT_FALSE(parse_isa(name, &parsed)) << name;
    EXPECT_EQ(parsed, Isa::kAvx512);
  }
  Isa parsed = Isa::kAvx512;
  EXPECT_FALSE(parse_isa(nullptr, &parsed));
}

TEST(Isa, ScalarIsAlwaysThereAndEachLevelContainsTheOnesBelow) {
  EXPECT_TRUE(is_available(Isa::kScalar));
  for (int32_t i = 1; i < kIsas; ++i) {
    if (is_available(static_cast<Isa>(i))) {
      EXPECT_TRUE(is_available(static_cast<Isa>(i - 1))) << i;
    }
  }
  EXPECT_TRUE(is_available(best_available_isa()));
}

#if defined(__linux__) && defined(__x86_64__)
bool has_flag(const std::string& flags, const std::string& flag) {
  return (" " + flags + " ").find(" " + flag + " ") != std::string::npos;
}

// The kernel lists a flag only when it also saves the registers.
TEST(Isa, AgreesWithTheOperatingSystem) {
  std::ifstream file("/proc/cpuinfo");
  std::string flags;
  for (std::string line; std::getline(file, line) && flags.empty();) {
    if (line.rfind("flags", 0) == 0) flags = line.substr(line.find(':') + 1);
  }
  ASSERT_NE(flags, "");
  const bool avx2 = has_flag(flags, "avx2") && has_flag(flags, "fma") && has_flag(flags, "f16c");
  bool avx512 = avx2;
  for (const char* part : {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}) {
    avx512 = avx512 && has_flag(flags, part);
  }
  const bool bf16 = avx512 && has_flag(flags, "avx512_bf16");
  // A build that assumes an instruction set may know better than both.
  EXPECT_GE(is_available(Isa::kAvx2), avx2);
  EXPECT_GE(is_available(Isa::kAvx512), avx512);
  EXPECT_GE(is_available(Isa::kAvx512Bf16), bf16);
  if (!is_available(Isa::kAvx512Bf16) || bf16) {
    EXPECT_EQ(is_available(Isa::kAvx2), avx2);
    EXPECT_EQ(is_available(Isa::kAvx512), avx512);
  }
}
#endif

}  // namespace
}  // namespace mhc
