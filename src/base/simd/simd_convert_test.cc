// Widening and narrowing, exhaustive and bit by bit against base/dtype.h.

#include "base/simd/simd_test.h"

namespace mhc {
namespace {

// Every upper half with the lower halves that decide the rounding to bf16 (bits 15..0) and f16
// (12..0).
std::vector<float> values_to_narrow() {
  std::vector<uint32_t> lower = {0x0000, 0x0001, 0x7fff, 0x8000, 0x8001, 0xffff};
  for (uint32_t kept = 0; kept < 8; ++kept) {
    for (uint32_t lost : {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x1001u, 0x1fffu}) {
      lower.push_back(kept << 13 | lost);
    }
  }
  std::vector<float> v;
#if defined(MHC_SMALL_TESTS)
  constexpr uint32_t kStep = 7;
#else
  constexpr uint32_t kStep = 1;
#endif
  for (uint32_t upper = 0; upper < 0x10000; upper += kStep) {
    for (const uint32_t l : lower) v.push_back(float_of(upper << 16 | l));
  }
  return v;
}

uint32_t raw(BF16 v) { return v.bits; }
uint32_t raw(F16 v) { return v.bits; }
uint32_t raw(float v) { return bits_of(v); }

class SimdConvert : public SimdTest {
 protected:
  template <class T>
  void expect_narrowed(const SimdMemory<T>& memory) const {
    std::vector<float> in = values_to_narrow();
    in.resize(in.size() / (2 * lanes()) * (2 * lanes()));
    constexpr size_t kLine = 64;
    std::vector<T> one(in.size()), two(in.size()), streamed(in.size() + kLine);
    auto* aligned = reinterpret_cast<T*>(
        (reinterpret_cast<uintptr_t>(streamed.data()) + kLine - 1) / kLine * kLine);
    {
      const FloatingPointPolicy policy;
      for (size_t i = 0; i < in.size(); i += lanes()) memory.store(one.data() + i, &in[i]);
      for (size_t i = 0; i < in.size(); i += 2 * lanes()) {
        memory.store_two(two.data() + i, &in[i]);
        memory.stream_two(aligned + i, &in[i]);
      }
    }
    size_t wrong = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      const uint32_t want = raw(from_float<T>(in[i]));
      const uint32_t zero = raw(from_float<T>(std::copysign(0.0f, in[i])));
      for (const uint32_t got : {raw(one[i]), raw(two[i]), raw(aligned[i])}) {
        if (got == want || (is_subnormal(in[i]) && got == zero)) continue;
        if (++wrong <= 5) {
          ADD_FAILURE() << std::hex << bits_of(in[i]) << ": got " << got << ", want " << want;
        }
      }
    }
    EXPECT_EQ(wrong, 0u);
  }

  template <class T>
  std::vector<float> widen_all(const SimdMemory<T>& memory) const {
    std::vector<T> in(0x10000);
    for (uint32_t i = 0; i < 0x10000; ++i) in[i].bits = static_cast<uint16_t>(i);
    std::vector<float> out(in.size(), kNan);
    const FloatingPointPolicy policy;
    for (size_t i = 0; i < in.size(); i += lanes()) memory.load(in.data() + i, out.data() + i);
    return out;
  }

  // Rounding in place is narrowing and widening, whatever the header does for it.
  template <class T>
  void expect_rounded(SimdOp op) const {
    const std::vector<float> in = values_to_narrow();
    const std::vector<float> got = apply(op, in);
    size_t wrong = 0;
    for (size_t i = 0; i < in.size(); ++i) {
      const float want = to_float(from_float<T>(in[i]));
      if (bits_of(got[i]) == bits_of(want)) continue;
      if (is_subnormal(in[i]) && bits_of(got[i]) == bits_of(std::copysign(0.0f, in[i]))) continue;
      if (++wrong <= 5) ADD_FAILURE() << std::hex << bits_of(in[i]) << ": got " << bits_of(got[i]);
    }
    EXPECT_EQ(wrong, 0u);
  }
};

TEST_P(SimdConvert, NarrowToBf16) { expect_narrowed(simd().bf16); }
TEST_P(SimdConvert, NarrowToF16) { expect_narrowed(simd().f16); }
TEST_P(SimdConvert, StoreFloat) { expect_narrowed(simd().f32); }

TEST_P(SimdConvert, WidenBf16) {
  const std::vector<float> got = widen_all(simd().bf16);
  for (uint32_t i = 0; i < 0x10000; ++i) EXPECT_EQ(bits_of(got[i]), i << 16);
}

// The conversion instruction makes a NaN quiet; its other bits stay.
TEST_P(SimdConvert, WidenF16) {
  const std::vector<float> got = widen_all(simd().f16);
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const float want = to_float(F16{static_cast<uint16_t>(i)});
    const uint32_t quiet = std::isnan(want) ? 0x400000u : 0u;
    EXPECT_EQ(bits_of(got[i]) | quiet, bits_of(want) | quiet) << std::hex << i;
  }
}

TEST_P(SimdConvert, RoundInPlace) {
  expect_rounded<float>(SimdOp::kRoundF32);
  expect_rounded<BF16>(SimdOp::kRoundBf16);
  expect_rounded<BF16>(SimdOp::kRoundToBf16);
  expect_rounded<F16>(SimdOp::kRoundF16);
}

INSTANTIATE_TEST_SUITE_P(Isas, SimdConvert, testing::ValuesIn(available_probes()), probe_name);

}  // namespace
}  // namespace mhc
