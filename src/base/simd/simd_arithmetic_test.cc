// Element-wise operations against exact or double arithmetic.

#include "base/simd/simd_test.h"

namespace mhc {
namespace {

#if defined(MHC_SMALL_TESTS)
constexpr size_t kSamples = 20000;
constexpr uint32_t kExpStride = 65521;
#else
constexpr size_t kSamples = 1000000;
constexpr uint32_t kExpStride = 1021;
#endif

std::string hex(float x) {
  char text[32];
  std::snprintf(text, sizeof(text), "%08x (%a)", bits_of(x), static_cast<double>(x));
  return text;
}

// Equal in bits, or both NaN, or a subnormal flushed to a zero of its sign. A result that would
// round to the smallest normal number only in subnormal precision counts as subnormal.
bool agrees(float got, float want) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::fabs(want) <= kSmallestNormal && got == 0)
    return std::signbit(got) == std::signbit(want);
  return bits_of(got) == bits_of(want);
}

using Reference = float (*)(float a, float b, float c);

class SimdArithmetic : public SimdTest {
 protected:
  void expect_correctly_rounded(SimdOp op, Reference reference) {
    std::vector<float> a, b, c;
    for (const float x : special_values()) {
      for (const float y : special_values()) {
        for (const float z : special_values()) {
          a.push_back(x), b.push_back(y), c.push_back(z);
        }
      }
    }
    for (size_t i = 0; i < kSamples; ++i) {
      const bool wide = (i & 1) != 0;
      a.push_back(wide ? random_bits() : random_in(-2, 2));
      b.push_back(wide ? random_bits() : random_in(-2, 2));
      c.push_back(wide ? random_bits() : random_in(-2, 2));
    }
    const std::vector<float> got = apply(op, a, b, c);
    size_t wrong = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      const float want = reference(flushed(a[i]), flushed(b[i]), flushed(c[i]));
      const float kept = reference(a[i], b[i], c[i]);  // without flushing of inputs
      if (agrees(got[i], want) || agrees(got[i], kept)) continue;
      if (++wrong <= 5) {
        ADD_FAILURE() << hex(a[i]) << ' ' << hex(b[i]) << ' ' << hex(c[i]) << ": got "
                      << hex(got[i]) << ", want " << hex(want);
      }
    }
    EXPECT_EQ(wrong, 0u);
  }
};

// In double the operands of 24 bits give a result whose second rounding is harmless (53 >= 2 * 24 +
// 2).
TEST_P(SimdArithmetic, Add) {
  expect_correctly_rounded(SimdOp::kAdd, [](float a, float b, float) {
    return static_cast<float>(static_cast<double>(a) + b);
  });
}
TEST_P(SimdArithmetic, Subtract) {
  expect_correctly_rounded(SimdOp::kSubtract, [](float a, float b, float) {
    return static_cast<float>(static_cast<double>(a) - b);
  });
}
TEST_P(SimdArithmetic, Multiply) {
  expect_correctly_rounded(SimdOp::kMultiply, [](float a, float b, float) {
    return static_cast<float>(static_cast<double>(a) * b);
  });
}
TEST_P(SimdArithmetic, Divide) {
  expect_correctly_rounded(SimdOp::kDivide, [](float a, float b, float) {
    return static_cast<float>(static_cast<double>(a) / b);
  });
}
TEST_P(SimdArithmetic, SquareRoot) {
  expect_correctly_rounded(SimdOp::kSqrt, [](float a, float, float) {
    return static_cast<float>(std::sqrt(static_cast<double>(a)));
  });
}
TEST_P(SimdArithmetic, FusedMultiplyAdd) {
  if (simd().lanes > 1) {
    expect_correctly_rounded(SimdOp::kFma,
                             [](float a, float b, float c) { return std::fma(a, b, c); });
  } else {  // a processor without the instruction rounds twice
    expect_correctly_rounded(SimdOp::kFma, [](float a, float b, float c) {
      const float product = flushed(static_cast<float>(static_cast<double>(a) * b));
      return static_cast<float>(static_cast<double>(product) + c);
    });
  }
}

// Bitwise operations change no other bit, of a NaN or a subnormal either.
TEST_P(SimdArithmetic, SignOperations) {
  std::vector<float> a = special_values();
  for (size_t i = 0; i < 1000; ++i) a.push_back(random_bits());
  const std::vector<float> negated = apply(SimdOp::kNegate, a);
  const std::vector<float> absolute = apply(SimdOp::kAbs, a);
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(bits_of(negated[i]), bits_of(a[i]) ^ 0x80000000u) << hex(a[i]);
    EXPECT_EQ(bits_of(absolute[i]), bits_of(a[i]) & 0x7fffffffu) << hex(a[i]);
  }
}

TEST_P(SimdArithmetic, MaximumIsNanWhereEitherIs) {
  std::vector<float> a, b;
  for (const float x : special_values()) {
    for (const float y : special_values()) a.push_back(x), b.push_back(y);
  }
  const std::vector<float> got = apply(SimdOp::kMax, a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) || std::isnan(b[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << hex(a[i]) << ' ' << hex(b[i]);
    } else {
      const float x = flushed(a[i]);
      const float y = flushed(b[i]);
      EXPECT_EQ(flushed(got[i]), x > y ? x : y) << hex(a[i]) << ' ' << hex(b[i]);
      EXPECT_TRUE(bits_of(got[i]) == bits_of(a[i]) || bits_of(got[i]) == bits_of(b[i]) ||
                  got[i] == 0);
    }
  }
}

TEST_P(SimdArithmetic, SelectGreaterIsFalseForNan) {
  std::vector<float> a, b, x, y;
  const std::vector<float> values = special_values();
  for (const float p : values) {
    for (const float q : values) {
      a.push_back(p), b.push_back(q);
      x.push_back(values[a.size() % values.size()]), y.push_back(random_bits());
    }
  }
  const std::vector<float> got = apply(SimdOp::kSelectGreater, a, b, x, y);
  for (size_t i = 0; i < a.size(); ++i) {
    const float want = flushed(a[i]) > flushed(b[i]) ? x[i] : y[i];
    EXPECT_EQ(bits_of(got[i]), bits_of(want)) << hex(a[i]) << " > " << hex(b[i]);
  }
}

TEST_P(SimdArithmetic, IsFiniteSelect) {
  const std::vector<float> a = special_values();
  const std::vector<float> x(a.size(), float_of(0x7f800001u));
  const std::vector<float> y(a.size(), float_of(0xffffffffu));
  const std::vector<float> got = apply(SimdOp::kIsFiniteSelect, a, x, y);
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(bits_of(got[i]), std::isfinite(a[i]) ? 0x7f800001u : 0xffffffffu) << hex(a[i]);
  }
}

TEST_P(SimdArithmetic, Constants) {
  for (const float value : special_values()) {
    std::vector<float> a(lanes(), 7.0f);
    a[0] = value;
    for (const SimdOp op : {SimdOp::kSplat, SimdOp::kBroadcast, SimdOp::kConstant}) {
      if (op == SimdOp::kConstant && (std::isnan(value) || is_subnormal(value))) continue;
      const std::vector<float> got = apply(op, a);
      for (size_t l = 0; l < lanes(); ++l) EXPECT_EQ(bits_of(got[l]), bits_of(value)) << l;
    }
    for (const float x : apply(SimdOp::kZero, a)) EXPECT_EQ(bits_of(x), 0u);
  }
}

// The distance of got from exact in units of the last place of exact; 0 where flushing or overflow
// may be.
double ulps(float got, double exact) {
  constexpr double kTwoUlps = 2 * 0x1p-23;
  if (got == 0 && exact < static_cast<double>(kSmallestNormal) * (1 + kTwoUlps)) return 0;
  if (std::isinf(got) && exact > static_cast<double>(kLargest) * (1 - kTwoUlps)) return 0;
  if (!std::isfinite(got)) return std::numeric_limits<double>::infinity();
  const int exponent = std::max(std::ilogb(exact), -126);
  return std::fabs(static_cast<double>(got) - exact) / std::ldexp(1.0, exponent - 23);
}

TEST_P(SimdArithmetic, ExponentialWithinTwoUlps) {
  std::vector<float> a;
  for (uint64_t bits = 0; bits < 0x100000000u; bits += kExpStride) {
    const float x = float_of(static_cast<uint32_t>(bits));
    if (!std::isnan(x)) a.push_back(x);
  }
  // Where the results are not trivial, and most of all at both ends and around 0.
  for (size_t i = 0; i < kSamples; ++i) {
    a.push_back(random_in(-105, 89));
    a.push_back(random_in(-1, 1));
    a.push_back(random_in(88.6f, 88.8f));
    a.push_back(random_in(-87.5f, -87.2f));
  }
  const std::vector<float> got = apply(SimdOp::kExp, a);
  double worst = 0;
  float at = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double error = ulps(got[i], std::exp(static_cast<double>(a[i])));
    if (error > worst) worst = error, at = a[i];
  }
  EXPECT_LE(worst, 2.0) << "at " << hex(at);
  RecordProperty("worst_ulps_times_1000", static_cast<int>(worst * 1000));
}

TEST_P(SimdArithmetic, ExponentialLimits) {
  for (const float x : special_values()) {
    const std::vector<float> got = apply(SimdOp::kExp, std::vector<float>(lanes(), x));
    for (const float y : got) {
      if (std::isnan(x)) {
        EXPECT_TRUE(std::isnan(y)) << hex(x);
      } else if (x == kInf || x == kLargest) {
        EXPECT_EQ(y, kInf);
      } else if (x == -kInf || x == -kLargest) {
        EXPECT_EQ(bits_of(y), 0u);
      } else if (std::fabs(x) <= kSmallestNormal) {
        EXPECT_EQ(y, 1.0f) << hex(x);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, SimdArithmetic, testing::ValuesIn(available_probes()), probe_name);

}  // namespace
}  // namespace mhc
