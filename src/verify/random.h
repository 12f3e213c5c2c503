#pragma once
// Reproducible numbers: a counter-based generator, so that any element can be had without the ones
// before it.

#include <cstdint>

namespace mhc::verify {

// FNV-1a; the usual seed is that of a test's own name.
constexpr uint64_t seed_of(const char* text) {
  uint64_t h = 0xcbf29ce484222325u;
  for (; *text != 0; ++text) h = (h ^ static_cast<uint8_t>(*text)) * 0x100000001b3u;
  return h;
}

class Random {
 public:
  explicit constexpr Random(uint64_t seed) : state_(seed) {}

  // splitmix64
  constexpr uint64_t bits() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  constexpr double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }  // [0, 1)
  constexpr int64_t below(int64_t n) {
    return static_cast<int64_t>(bits() % static_cast<uint64_t>(n));
  }

  // Four 16-bit uniforms added: mean 0, variance 1, |.| < 3.47, nearly normal, and quick.
  constexpr double normal() {
    const uint64_t b = bits();
    const auto piece = [b](int shift) { return static_cast<double>((b >> shift) & 0xffffu); };
    constexpr double kScale = 1.7320508075688772 * 0x1p-16;  // sqrt(12 / 4)
    return (piece(0) + piece(16) + piece(32) + piece(48) - 2.0 * 65535.0) * kScale;
  }

 private:
  uint64_t state_;
};

}  // namespace mhc::verify
