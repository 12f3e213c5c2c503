// Pairs of vectors in an order of the header's own: what goes in comes out in its place, rounded.

#include "base/simd/simd_test.h"

namespace mhc {
namespace {

class SimdMixed : public SimdTest {
 protected:
  // position[k]: the element of memory that value k of the two vectors stands for.
  template <class T>
  std::vector<size_t> positions(const SimdMemory<T>& memory) const {
    const size_t count = 2 * lanes();
    std::vector<T> row(count);
    for (size_t i = 0; i < count; ++i) row[i] = from_float<T>(static_cast<float>(i));
    std::vector<float> got(count, kNan);
    memory.load_mixed(row.data(), got.data());
    std::vector<size_t> position(count, count);
    std::vector<bool> seen(count, false);
    for (size_t k = 0; k < count; ++k) {
      if (!(got[k] >= 0 && got[k] < static_cast<float>(count))) {
        ADD_FAILURE() << "value " << k << " is " << got[k];
        return {};
      }
      position[k] = static_cast<size_t>(got[k]);
      EXPECT_FALSE(seen[position[k]]) << k;
      seen[position[k]] = true;
    }
    return position;
  }

  // Every finite value, infinities, and NaNs as clean_nan and widened elements have them.
  template <class T>
  void expect_round_trip(const SimdMemory<T>& memory) {
    const std::vector<size_t> position = positions(memory);
    const size_t count = 2 * lanes();
    ASSERT_EQ(position.size(), count);
    for (int sample = 0; sample < 20000; ++sample) {
      std::vector<float> a(count);
      for (float& x : a) {
        x = random_bits();
        if (x != x)
          x = float_of(sample % 2 == 0 ? 0x7fc00000u : (bits_of(x) & 0xffff0000u) | 0x400000u);
        if (is_subnormal(x)) x = 0;
      }
      T* const out[2] = {pages_.front<T>(), pages_.back<T>(count)};
      for (T* p : out) {
        for (const bool streaming : {false, true}) {
          pages_.fill();
          {
            const FloatingPointPolicy policy;
            (streaming ? memory.stream_mixed : memory.store_mixed)(p, a.data());
          }
          if (sample < 10) {
            EXPECT_TRUE(pages_.untouched_outside(p, count));
          }
          for (size_t k = 0; k < count; ++k) {
            const T want = from_float<T>(a[k]);
            if (to_float(want) != 0 && is_subnormal(to_float(want))) continue;
            ASSERT_EQ(std::memcmp(&p[position[k]], &want, sizeof(T)), 0)
                << std::hex << bits_of(a[k]) << " at " << k;
          }
        }
      }
    }
  }

  GuardedPages pages_;
};

TEST_P(SimdMixed, Bf16) { expect_round_trip(simd().bf16); }
TEST_P(SimdMixed, F16) { expect_round_trip(simd().f16); }
TEST_P(SimdMixed, F32) { expect_round_trip(simd().f32); }

TEST_P(SimdMixed, LoadsReadNothingElse) {
  const size_t count = 2 * lanes();
  for (BF16* p : {pages_.front<BF16>(), pages_.front<BF16>(1), pages_.back<BF16>(count)}) {
    std::vector<float> got(count, kNan);
    for (size_t i = 0; i < count; ++i) p[i] = to_bf16(1);
    simd().bf16.load_mixed(p, got.data());
    for (const float x : got) EXPECT_EQ(x, 1);
  }
}

TEST_P(SimdMixed, CleanNan) {
  const std::vector<float> in = special_values();
  const std::vector<float> got = apply(SimdOp::kCleanNan, in);
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i] != in[i]) {
      EXPECT_EQ(bits_of(got[i]), 0x7fc00000u) << std::hex << bits_of(in[i]);
    } else if (!is_subnormal(in[i])) {
      EXPECT_EQ(bits_of(got[i]), bits_of(in[i]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, SimdMixed, testing::ValuesIn(available_probes()), probe_name);

}  // namespace
}  // namespace mhc
