// Conversions between types against exact arithmetic: every value of bf16 and f16 and every
// boundary between two of them is a double, so that "the nearest, ties to even" can be asked of
// doubles directly.

#include "base/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>

namespace mhc {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

template <class T>
struct Format;
template <>
struct Format<BF16> {
  static constexpr int kFraction = 7;
  static constexpr int kBias = 127;
};
template <>
struct Format<F16> {
  static constexpr int kFraction = 10;
  static constexpr int kBias = 15;
};

// The bits of inf, one step above those of the largest finite value.
template <class T>
constexpr uint16_t kInfBits =
    static_cast<uint16_t>(0x7fff >> Format<T>::kFraction << Format<T>::kFraction);

// The value of non-negative bits by definition of the format; inf counts as the power of two it
// stands for when the boundary below it is asked for.
template <class T>
double value_of(uint16_t bits) {
  using F = Format<T>;
  const int exponent = bits >> F::kFraction;
  const int fraction = bits & ((1 << F::kFraction) - 1);
  if (exponent == 0) return std::ldexp(fraction, 1 - F::kBias - F::kFraction);
  return std::ldexp(fraction + (1 << F::kFraction), exponent - F::kBias - F::kFraction);
}

// Bits of the nearest value, to even, by bisection and one exact comparison with the boundary.
template <class T>
uint16_t nearest(double v) {
  const auto sign = static_cast<uint16_t>(std::signbit(v) ? 0x8000 : 0);
  const double a = std::fabs(v);
  uint16_t low = 0;
  uint16_t high = kInfBits<T>;
  if (a >= value_of<T>(high)) return sign | high;
  while (high - low > 1) {
    const auto middle = static_cast<uint16_t>((low + high) / 2);
    (value_of<T>(middle) <= a ? low : high) = middle;
  }
  const double boundary = (value_of<T>(low) + value_of<T>(high)) / 2;
  const bool up = a > boundary || (a == boundary && (low & 1) != 0);
  return static_cast<uint16_t>(sign | (up ? high : low));
}

template <class T>
class Narrow : public testing::Test {
 protected:
  static void expect_nearest(double v) {
    EXPECT_EQ(from_double<T>(v).bits, nearest<T>(v)) << std::hexfloat << v;
  }
};
using HalfTypes = testing::Types<BF16, F16>;
TYPED_TEST_SUITE(Narrow, HalfTypes);

TYPED_TEST(Narrow, WideningIsTheDefinition) {
  using T = TypeParam;
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const T v{static_cast<uint16_t>(i)};
    const auto magnitude = static_cast<uint16_t>(i & 0x7fff);
    if (magnitude > kInfBits<T>) {
      EXPECT_TRUE(std::isnan(to_float(v))) << std::hex << i;
      continue;
    }
    const double want = magnitude == kInfBits<T> ? kInf : value_of<T>(magnitude);
    EXPECT_EQ(to_double(v), (i & 0x8000) != 0 ? -want : want) << std::hex << i;
    EXPECT_EQ(std::signbit(to_float(v)), (i & 0x8000) != 0);
    EXPECT_EQ(from_float<T>(to_float(v)).bits, v.bits);
    EXPECT_EQ(from_double<T>(to_double(v)).bits, v.bits);
  }
}

// At each boundary, one double below and above it, and one float: the doubles next to it round to
// the boundary itself in float, so that rounding twice would take half of them the wrong way.
TYPED_TEST(Narrow, DoublesAroundEveryBoundary) {
  using T = TypeParam;
  for (uint16_t low = 0; low < kInfBits<T>; ++low) {
    const auto high = static_cast<uint16_t>(low + 1);
    const double boundary = (value_of<T>(low) + value_of<T>(high)) / 2;
    const uint16_t even = (low & 1) != 0 ? high : low;
    for (const double sign : {1.0, -1.0}) {
      const auto bits = [&](double v) { return static_cast<int>(from_double<T>(sign * v).bits); };
      const int s = sign < 0 ? 0x8000 : 0;
      EXPECT_EQ(bits(boundary), s | even) << std::hexfloat << boundary;
      EXPECT_EQ(bits(std::nextafter(boundary, 0)), s | low) << std::hexfloat << boundary;
      EXPECT_EQ(bits(std::nextafter(boundary, kInf)), s | high) << std::hexfloat << boundary;
      const auto f = static_cast<float>(boundary);
      EXPECT_EQ(bits(std::nextafter(f, 0.0f)), s | low) << std::hexfloat << boundary;
      EXPECT_EQ(bits(std::nextafter(f, std::numeric_limits<float>::infinity())), s | high);
    }
  }
}

TYPED_TEST(Narrow, RandomDoubles) {
  std::mt19937_64 random(0x6d6863);
  for (int i = 0; i < 200000; ++i) {
    const double any = std::bit_cast<double>(random());
    if (!std::isnan(any)) this->expect_nearest(any);
    this->expect_nearest(std::ldexp(static_cast<double>(random() >> 11), -60 - i % 40));
    this->expect_nearest(-std::ldexp(static_cast<double>(random() >> 11), -60 + i % 40));
    this->expect_nearest(std::ldexp(static_cast<double>(random() >> 11), -190 + i % 20));
  }
  for (const double v : {0.0, -0.0, 1e300, -1e300, 1e-300, -1e-300, 65504.0, 65519.0, 65520.0,
                         65536.0, 0x1p-24, 0x1p-25, 0x1p-133, 0x1p-134, kInf, -kInf}) {
    this->expect_nearest(v);
  }
}

// Floats with every upper half, and lower halves around every tie of either type.
TYPED_TEST(Narrow, Floats) {
  using T = TypeParam;
  size_t wrong = 0;
  for (uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const uint32_t lower : {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x1001u, 0x3000u, 0x7fffu,
                                 0x8000u, 0x8001u, 0xefffu, 0xf000u, 0xffffu}) {
      const auto f = std::bit_cast<float>(upper << 16 | lower);
      if (std::isnan(f)) continue;
      wrong += from_float<T>(f).bits != nearest<T>(static_cast<double>(f));
    }
  }
  EXPECT_EQ(wrong, 0u);
}

// A NaN stays one, quiet and with its sign, whatever its payload.
TYPED_TEST(Narrow, NanStaysNan) {
  using T = TypeParam;
  constexpr uint16_t kQuiet = 1 << (Format<T>::kFraction - 1);
  for (const uint32_t bits : {0x7f800001u, 0x7fffffffu, 0x7fc00000u, 0x7f80ffffu, 0x7fbfffffu}) {
    for (const uint32_t sign : {0u, 0x80000000u}) {
      const T narrow = from_float<T>(std::bit_cast<float>(bits | sign));
      EXPECT_GT(narrow.bits & 0x7fff, kInfBits<T>) << std::hex << bits;
      EXPECT_NE(narrow.bits & kQuiet, 0) << std::hex << bits;
      EXPECT_EQ(narrow.bits >> 15, sign >> 31);
      EXPECT_TRUE(std::isnan(to_float(narrow)));
    }
  }
  EXPECT_TRUE(std::isnan(to_float(from_double<T>(std::numeric_limits<double>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(to_float(from_double<T>(std::bit_cast<double>(0x7ff0000000000001u)))));
}

TEST(RoundToOdd, KeepsWhatIsExactAndMarksWhatIsNot) {
  std::mt19937_64 random(0x6f6464);
  for (int i = 0; i < 200000; ++i) {
    const double v = std::ldexp(static_cast<double>(static_cast<int64_t>(random())),
                                static_cast<int>(random() % 150) - 140);
    const float f = round_to_odd(v);
    const auto got = static_cast<double>(f);
    if (static_cast<double>(static_cast<float>(v)) == v) {
      EXPECT_EQ(got, v);
      continue;
    }
    EXPECT_EQ(std::bit_cast<uint32_t>(f) & 1, 1u) << std::hexfloat << v;
    const auto below =
        static_cast<double>(std::nextafter(f, -std::numeric_limits<float>::infinity()));
    const auto above =
        static_cast<double>(std::nextafter(f, std::numeric_limits<float>::infinity()));
    EXPECT_TRUE(below < v && v < above) << std::hexfloat << v;
  }
}

TEST(FromDouble, WiderTypes) {
  EXPECT_EQ(from_double<float>(1 + 0x1p-24), 1.0f);
  EXPECT_EQ(from_double<float>(1 + 0x1.8p-24), 1 + 0x1p-23f);
  EXPECT_EQ(from_double<double>(0.1), 0.1);
  EXPECT_EQ(to_float(0.1), 0.1f);
  EXPECT_EQ(to_double(0.1f), static_cast<double>(0.1f));
}

// Unit roundoff by its definition: the largest u for which 1 + u still rounds to 1.
TEST(DType, UnitRoundoff) {
  const auto survives = [](DType t, double x) {
    return visit_dtype(t,
                       [&](auto tag) { return to_double(from_double<decltype(tag)>(x)) != 1.0; });
  };
  for (const DType t : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64}) {
    const double u = unit_roundoff(t);
    EXPECT_FALSE(survives(t, 1 + u)) << name_of(t);
    EXPECT_TRUE(survives(t, 1 + 2 * u)) << name_of(t);
  }
}

TEST(DType, NamesSizesAndTags) {
  const char* const names[kDTypes] = {"f32", "bf16", "f16", "f64"};
  for (int32_t i = 0; i < kDTypes; ++i) {
    const auto t = static_cast<DType>(i);
    EXPECT_TRUE(is_valid(t));
    EXPECT_STREQ(name_of(t), names[i]);
    const bool same = visit_dtype(t, [&](auto tag) {
      return DTypeOf<decltype(tag)>::value == t && static_cast<int64_t>(sizeof(tag)) == size_of(t);
    });
    EXPECT_TRUE(same) << names[i];
  }
  EXPECT_FALSE(is_valid(static_cast<DType>(-1)));
  EXPECT_FALSE(is_valid(static_cast<DType>(kDTypes)));
  EXPECT_STREQ(name_of(static_cast<DType>(99)), "an unknown type");
}

static_assert(to_bf16(1.0f).bits == 0x3f80 && to_f16(1.0f).bits == 0x3c00);
static_assert(from_double<BF16>(1 + 0x1p-8 + 0x1p-40).bits == 0x3f81);

}  // namespace
}  // namespace mhc
