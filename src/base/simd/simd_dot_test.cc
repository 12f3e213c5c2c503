// The bf16 dot product and its pairs: hardware and emulation against one exact model.

#include <cstdio>

#include "base/simd/simd_test.h"

namespace mhc {
namespace {

// x + y rounded to odd in double: whatever is lost leaves a one in the last bit, so that rounding
// once more, to at most 51 bits, gives what one rounding of the exact sum would have given.
double add_to_odd(double x, double y) {
  const double sum = x + y;
  const double back = sum - x;
  const double lost = (x - (sum - back)) + (y - back);  // exact
  uint64_t bits = std::bit_cast<uint64_t>(sum);
  if (lost == 0 || !std::isfinite(sum) || (bits & 1) != 0) return sum;
  bits += (lost > 0) == (sum > 0) ? 1u : ~uint64_t{0};
  return std::bit_cast<double>(bits);
}

// a * b + c rounded once to float, to nearest even, subnormal operands and results flushed.
float multiply_add(float a, float b, float c) {
  const double product = static_cast<double>(flushed(a)) * flushed(b);  // exact
  const double sum = add_to_odd(product, flushed(c));
  if (!std::isfinite(sum) || sum == 0) return static_cast<float>(sum);
  if (std::fabs(sum) > 1) return static_cast<float>(sum);
  // Small results are rounded with the exponent out of the way: what is tiny then is flushed.
  const float scaled = static_cast<float>(sum * 0x1p100);
  return std::fabs(scaled) < 0x1p-26f ? std::copysign(0.0f, scaled) : scaled * 0x1p-100f;
}

class SimdDot : public SimdTest {
 protected:
  BF16 random_bf16() {
    const float spread = random_in(0, 1);
    if (spread < 0.4f) return to_bf16(random_in(-2, 2));
    if (spread < 0.6f)
      return to_bf16(std::ldexp(random_in(-2, 2), random_in(0, 1) < 0.5f ? -63 : -64));
    return to_bf16(random_bits());
  }
  float random_sum() {
    const float spread = random_in(0, 1);
    if (spread < 0.4f) return random_in(-2, 2);
    if (spread < 0.6f) return std::ldexp(random_in(-2, 2), -126);
    return random_bits();
  }
  std::vector<BF16> random_pairs() {
    std::vector<BF16> v(2 * lanes());
    for (BF16& x : v) x = random_bf16();
    return v;
  }
  std::vector<float> dot(const std::vector<float>& acc, const std::vector<BF16>& a,
                         const std::vector<BF16>& b) const {
    std::vector<float> out(lanes(), kNan);
    const FloatingPointPolicy policy;
    simd().dot(acc.data(), a.data(), b.data(), out.data());
    return out;
  }
};

TEST_P(SimdDot, IsTwoRoundedMultiplyAddsOddFirst) {
#if defined(MHC_SMALL_TESTS)
  constexpr int kSamples = 5000;
#else
  constexpr int kSamples = 200000;
#endif
  size_t wrong = 0;
  size_t other_order = 0;
  for (int sample = 0; sample < kSamples; ++sample) {
    const std::vector<BF16> a = random_pairs();
    const std::vector<BF16> b = random_pairs();
    std::vector<float> acc(lanes());
    for (float& x : acc) x = random_sum();
    const std::vector<float> got = dot(acc, a, b);
    for (size_t l = 0; l < lanes(); ++l) {
      const float a0 = to_float(a[2 * l]), a1 = to_float(a[2 * l + 1]);
      const float b0 = to_float(b[2 * l]), b1 = to_float(b[2 * l + 1]);
      const float want = multiply_add(a0, b0, multiply_add(a1, b1, acc[l]));
      const float swapped = multiply_add(a1, b1, multiply_add(a0, b0, acc[l]));
      other_order += want == want && bits_of(want) != bits_of(swapped);
      const bool same = std::isnan(want) ? std::isnan(got[l]) : bits_of(got[l]) == bits_of(want);
      if (!same && ++wrong <= 5) {
        ADD_FAILURE() << std::hexfloat << acc[l] << " + " << a1 << " * " << b1 << " + " << a0
                      << " * " << b0 << ": got " << got[l] << ", want " << want;
      }
    }
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(other_order, 0u);
}

TEST_P(SimdDot, SpecialValues) {
  std::vector<BF16> values;
  for (const float x : special_values()) values.push_back(to_bf16(x));
  for (const uint16_t bits : std::vector<uint16_t>{1, 0x7f, 0x80, 0x8080, 0x7f81, 0xff81})
    values.push_back({bits});
  for (const BF16 x : values) {
    for (const BF16 y : values) {
      for (const float z : special_values()) {
        std::vector<BF16> a(2 * lanes(), BF16{0}), b(2 * lanes(), BF16{0});
        for (size_t i = 0; i < a.size(); i += 2) {
          const size_t at = i + (i / 2) % 2;  // alternately the even and the odd one
          a[at] = x;
          b[at] = y;
        }
        const std::vector<float> got = dot(std::vector<float>(lanes(), z), a, b);
        for (size_t l = 0; l < lanes(); ++l) {
          const auto f = [&](size_t i, float c) {
            return multiply_add(to_float(a[2 * l + i]), to_float(b[2 * l + i]), c);
          };
          const float want = f(0, f(1, z));
          const bool same =
              std::isnan(want) ? std::isnan(got[l]) : bits_of(got[l]) == bits_of(want);
          EXPECT_TRUE(same) << std::hex << x.bits << " * " << y.bits << " + " << bits_of(z)
                            << ": got " << bits_of(got[l]) << ", want " << bits_of(want);
        }
      }
    }
  }
}

TEST_P(SimdDot, PairsReadAndWriteNothingElse) {
  GuardedPages pages;
  for (size_t count = 0; count <= 2 * lanes(); ++count) {
    for (BF16* p : {pages.front<BF16>(1), pages.back<BF16>(count), pages.back<BF16>(count, 3)}) {
      for (size_t i = 0; i < count; ++i) p[i].bits = static_cast<uint16_t>(i + 1);
      std::vector<BF16> got(2 * lanes(), BF16{0xffff});
      simd().load_pairs_part(p, static_cast<int64_t>(count), got.data());
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_EQ(got[i].bits, i < count ? i + 1 : 0u) << count;
    }
  }
  const std::vector<BF16> from = random_pairs();
  for (BF16* p : {pages.front<BF16>(), pages.front<BF16>(1), pages.back<BF16>(2 * lanes())}) {
    pages.fill();
    simd().copy_pairs(from.data(), p);
    for (size_t i = 0; i < from.size(); ++i) EXPECT_EQ(p[i].bits, from[i].bits);
    EXPECT_TRUE(pages.untouched_outside(p, from.size()));
    std::vector<BF16> back(2 * lanes());
    simd().copy_pairs(p, back.data());
    for (size_t i = 0; i < from.size(); ++i) EXPECT_EQ(back[i].bits, from[i].bits);
  }
}

TEST_P(SimdDot, BroadcastPairAndQuad) {
  GuardedPages pages;
  for (size_t away = 0; away < 4; ++away) {
    std::vector<BF16> got(2 * lanes());
    BF16* pair = pages.back<BF16>(2, away);
    for (size_t i = 0; i < 2; ++i) pair[i].bits = static_cast<uint16_t>(0x7f81 + i);
    simd().broadcast_dot_pair(pair, got.data());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].bits, pair[i % 2].bits);
    BF16* quad = pages.back<BF16>(4, away);
    for (size_t i = 0; i < 4; ++i) quad[i].bits = static_cast<uint16_t>(0x7f81 + i);
    simd().broadcast_dot_quad(quad, got.data());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].bits, quad[i % 4].bits);
  }
}

TEST_P(SimdDot, NarrowPairsAndSplit) {
  for (int sample = 0; sample < 2000; ++sample) {
    std::vector<float> first(lanes()), second(lanes());
    for (float& x : first) x = random_bits();
    for (float& x : second) x = random_bits();
    std::vector<BF16> pairs(2 * lanes());
    {
      const FloatingPointPolicy policy;
      simd().narrow_pairs(first.data(), second.data(), pairs.data());
    }
    for (size_t l = 0; l < lanes(); ++l) {
      EXPECT_EQ(pairs[2 * l].bits, to_bf16(flushed(first[l])).bits)
          << std::hex << bits_of(first[l]);
      EXPECT_EQ(pairs[2 * l + 1].bits, to_bf16(flushed(second[l])).bits);
    }
    const std::vector<BF16> any = random_pairs();
    simd().split(any.data(), first.data(), second.data());
    for (size_t l = 0; l < lanes(); ++l) {
      EXPECT_EQ(bits_of(first[l]), uint32_t{any[2 * l].bits} << 16);
      EXPECT_EQ(bits_of(second[l]), uint32_t{any[2 * l + 1].bits} << 16);
    }
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SimdDot);
INSTANTIATE_TEST_SUITE_P(Isas, SimdDot, testing::ValuesIn(available_probes_with_dot()), probe_name);

}  // namespace
}  // namespace mhc
