// Which bytes are read and written, and how lanes move.

#include <type_traits>

#include "base/simd/simd_test.h"

namespace mhc {
namespace {

class SimdMemoryTest : public SimdTest {
 protected:
  // Small integers: exact in every type.
  static float value_of(size_t i) { return static_cast<float>(i % 100) + 1; }

  // Calls f(p) for element addresses at both edges of accessible memory and next to them.
  template <class T, class F>
  void at_edges(size_t count, const F& f) {
    for (size_t away = 0; away < 5; ++away) {
      f(pages_.front<T>(away));
      f(pages_.back<T>(count, away));
    }
  }

  template <class T>
  void expect_loads(const SimdMemory<T>& memory) {
    for (size_t count = 0; count <= lanes(); ++count) {
      at_edges<T>(count, [&](T* p) {
        for (size_t i = 0; i < count; ++i) p[i] = from_float<T>(value_of(i));
        std::vector<float> got(lanes(), kNan);
        memory.load_part(p, static_cast<int64_t>(count), got.data());
        for (size_t i = 0; i < lanes(); ++i) {
          EXPECT_EQ(bits_of(got[i]), bits_of(i < count ? value_of(i) : 0.0f)) << count << ' ' << i;
        }
        if (count < lanes()) return;
        got.assign(lanes(), kNan);
        memory.load(p, got.data());
        for (size_t i = 0; i < lanes(); ++i) EXPECT_EQ(got[i], value_of(i));
      });
    }
  }

  template <class T>
  void expect_stored(T* p, size_t count) const {
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(to_float(p[i]), value_of(i)) << count << ' ' << i;
    EXPECT_TRUE(pages_.untouched_outside(p, count)) << count;
  }

  template <class T>
  void expect_stores(const SimdMemory<T>& memory) {
    std::vector<float> a(2 * lanes());
    for (size_t i = 0; i < a.size(); ++i) a[i] = value_of(i);
    for (size_t count = 0; count <= lanes(); ++count) {
      at_edges<T>(count, [&](T* p) {
        pages_.fill();
        memory.store_part(p, a.data(), static_cast<int64_t>(count));
        expect_stored(p, count);
      });
    }
    at_edges<T>(lanes(), [&](T* p) {
      pages_.fill();
      memory.store(p, a.data());
      expect_stored(p, lanes());
    });
    at_edges<T>(2 * lanes(), [&](T* p) {
      pages_.fill();
      memory.store_two(p, a.data());
      expect_stored(p, 2 * lanes());
    });
    const size_t alignment = std::min<size_t>(64 / sizeof(T), 2 * lanes());
    for (const size_t away : {size_t{0}, alignment}) {
      for (T* p : {pages_.front<T>(away), pages_.back<T>(2 * lanes(), away)}) {
        pages_.fill();
        memory.stream_two(p, a.data());
        expect_stored(p, 2 * lanes());
      }
    }
  }

  GuardedPages pages_;
};

TEST_P(SimdMemoryTest, LoadsReadNothingElse) {
  expect_loads(simd().f32);
  expect_loads(simd().bf16);
  expect_loads(simd().f16);
}

TEST_P(SimdMemoryTest, StoresWriteNothingElse) {
  expect_stores(simd().f32);
  expect_stores(simd().bf16);
  expect_stores(simd().f16);
}

// What a masked-out lane holds must not show: neither a NaN nor an infinity.
TEST_P(SimdMemoryTest, LanesPastTheCountAreZero) {
  std::vector<float> f(2 * lanes(), kNan);
  std::vector<BF16> b(2 * lanes(), to_bf16(kNan));
  std::vector<F16> h(2 * lanes(), to_f16(kInf));
  for (size_t count = 0; count < lanes(); ++count) {
    std::vector<float> got(lanes());
    const auto expect_zeros = [&] {
      for (size_t i = count; i < lanes(); ++i) EXPECT_EQ(bits_of(got[i]), 0u) << count << ' ' << i;
    };
    simd().f32.load_part(f.data(), static_cast<int64_t>(count), got.data());
    expect_zeros();
    simd().bf16.load_part(b.data(), static_cast<int64_t>(count), got.data());
    expect_zeros();
    simd().f16.load_part(h.data(), static_cast<int64_t>(count), got.data());
    expect_zeros();
  }
}

TEST_P(SimdMemoryTest, SumOfLanesHasAFixedTree) {
  size_t differs_from_running_sum = 0;
  for (int sample = 0; sample < 1000; ++sample) {
    std::vector<float> a(lanes());
    float running = 0;
    for (float& x : a) running += x = std::ldexp(random_in(-1, 1), sample % 20);
    std::vector<float> tree = a;
    for (size_t half = lanes() / 2; half > 0; half /= 2) {
      for (size_t i = 0; i < half; ++i) tree[i] += tree[i + half];
    }
    EXPECT_EQ(bits_of(simd().reduce_add(a.data())), bits_of(tree[0]));
    differs_from_running_sum += running != tree[0];
  }
  if (lanes() > 2) {
    EXPECT_GT(differs_from_running_sum, 0u);
  }
}

TEST_P(SimdMemoryTest, AddAdjacent) {
  if (simd().add_adjacent == nullptr) {
    EXPECT_EQ(lanes(), 1u);
    return;
  }
  std::vector<float> a(lanes());
  for (float& x : a) x = random_in(-1, 1);
  std::vector<float> got(lanes() / 2 + 1, 7.0f);
  simd().add_adjacent(a.data(), got.data());
  for (size_t i = 0; i < lanes() / 2; ++i) EXPECT_EQ(got[i], a[2 * i] + a[2 * i + 1]) << i;
  EXPECT_EQ(got.back(), 7.0f);
}

TEST_P(SimdMemoryTest, BroadcastPair) {
  if (simd().broadcast_pair == nullptr) {
    EXPECT_EQ(lanes(), 1u);
    return;
  }
  at_edges<float>(2, [&](float* p) {
    p[0] = float_of(0x7f800001u);
    p[1] = -2.5f;
    std::vector<float> got(lanes(), 0.0f);
    simd().broadcast_pair(p, got.data());
    for (size_t i = 0; i < lanes(); ++i) EXPECT_EQ(bits_of(got[i]), bits_of(p[i % 2])) << i;
  });
}

INSTANTIATE_TEST_SUITE_P(Isas, SimdMemoryTest, testing::ValuesIn(available_probes()), probe_name);

}  // namespace
}  // namespace mhc
