#pragma once
// What the tests of the vector layer share: the probes that this processor can run, the values that
// break things, and memory whose neighbours cannot be touched.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/fpenv.h"
#include "base/simd/simd_probe.h"

namespace mhc {

inline std::vector<SimdProbe> available_probes() {
  std::vector<SimdProbe> all = {scalar::simd_probe()};
#if defined(MHC_HAVE_X86)
  all.push_back(avx2::simd_probe());
  all.push_back(avx512::simd_probe());
  all.push_back(avx512bf16::simd_probe());
  all.push_back(avx512bf16_emulated::simd_probe());
#endif
  std::erase_if(all, [](const SimdProbe& p) { return !is_available(p.needs); });
  return all;
}

inline std::vector<SimdProbe> available_probes_with_dot() {
  std::vector<SimdProbe> all = available_probes();
  std::erase_if(all, [](const SimdProbe& p) { return p.dot == nullptr; });
  return all;
}

inline std::string probe_name(const testing::TestParamInfo<SimdProbe>& info) {
  return info.param.name;
}
inline void PrintTo(const SimdProbe& p, std::ostream* out) { *out << p.name; }

inline uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }
inline float float_of(uint32_t bits) { return std::bit_cast<float>(bits); }

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kSmallestNormal = std::numeric_limits<float>::min();
inline constexpr float kLargest = std::numeric_limits<float>::max();

inline bool is_subnormal(float x) { return (bits_of(x) & 0x7f800000u) == 0; }  // or zero
inline float flushed(float x) { return is_subnormal(x) ? std::copysign(0.0f, x) : x; }

inline std::vector<float> special_values() {
  std::vector<float> v = {0.0f, 1.0f, 1.5f, 3.0f, kSmallestNormal, kLargest, kInf, kNan};
  for (uint32_t bits : {0x7f800001u, 0x7fffffffu, 0x7fa55aa5u, 1u, 0x7fffffu, 0x3f800001u}) {
    v.push_back(float_of(bits));
  }
  const size_t positive = v.size();
  for (size_t i = 0; i < positive; ++i) v.push_back(float_of(bits_of(v[i]) | 0x80000000u));
  return v;
}

// Every row of the layer's tests runs under the library's policy; references are computed outside.
class SimdTest : public testing::TestWithParam<SimdProbe> {
 protected:
  const SimdProbe& simd() const { return GetParam(); }
  size_t lanes() const { return static_cast<size_t>(simd().lanes); }

  // Results for inputs of any number; missing ones are filled up with 1.
  std::vector<float> apply(SimdOp op, std::vector<float> a, std::vector<float> b = {},
                           std::vector<float> c = {}, std::vector<float> d = {}) const {
    const size_t count = a.size();
    const size_t padded = (count + lanes() - 1) / lanes() * lanes();
    SimdArguments in;
    const auto prepare = [&](std::vector<float>& v) -> const float* {
      if (v.empty()) return nullptr;
      v.resize(padded, 1.0f);
      return v.data();
    };
    in = {prepare(a), prepare(b), prepare(c), prepare(d)};
    std::vector<float> out(padded, kNan);
    {
      const FloatingPointPolicy policy;
      simd().apply(op, in, static_cast<int64_t>(padded), out.data());
    }
    out.resize(count);
    return out;
  }

  void SetUp() override {
    // FNV of the test's name: the same values in every run.
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    uint64_t seed = 0xcbf29ce484222325u;
    for (const char c : std::string(test->name())) {
      seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    }
    random_.seed(seed);
  }

  float random_bits() { return float_of(static_cast<uint32_t>(random_())); }
  float random_in(float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(random_);
  }

 private:
  std::mt19937_64 random_;
};

// Pages between two that fault on any access.
class GuardedPages {
 public:
  GuardedPages() : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    base_ = static_cast<std::byte*>(
        mmap(nullptr, 3 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED || mprotect(base_ + page_, page_, PROT_READ | PROT_WRITE) != 0) {
      throw std::bad_alloc();
    }
    fill();
  }
  ~GuardedPages() { munmap(base_, 3 * page_); }
  GuardedPages(const GuardedPages&) = delete;
  GuardedPages& operator=(const GuardedPages&) = delete;

  void fill() { std::memset(base_ + page_, kGuard, page_); }

  // The first count elements, and the last: the byte behind them faults. `away` elements keep off
  // the edge.
  template <class T>
  T* front(size_t away = 0) {
    return reinterpret_cast<T*>(base_ + page_) + away;
  }
  template <class T>
  T* back(size_t count, size_t away = 0) {
    return reinterpret_cast<T*>(base_ + 2 * page_) - count - away;
  }

  // Whether all is as filled, but for the given elements.
  template <class T>
  bool untouched_outside(const T* p, size_t count) const {
    const auto* first = reinterpret_cast<const std::byte*>(p);
    const auto* last = reinterpret_cast<const std::byte*>(p + count);
    for (const std::byte* b = base_ + page_; b < base_ + 2 * page_; ++b) {
      if ((b < first || b >= last) && *b != std::byte{kGuard}) return false;
    }
    return true;
  }

 private:
  static constexpr unsigned char kGuard = 0xa5;
  size_t page_;
  std::byte* base_;
};

}  // namespace mhc
