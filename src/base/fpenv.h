#pragma once
// One floating-point mode for all kernels: round to nearest, exceptions masked, subnormals flushed.
// Threads of different executors differ in it (frameworks' workers flush, Python's thread does
// not), and the bf16 dot instruction always flushes; with one policy the bits depend on neither.

#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mhc {

class FloatingPointPolicy {
 public:
#if defined(__x86_64__)
  FloatingPointPolicy() : saved_(_mm_getcsr()) { _mm_setcsr(kFlushMaskedNearest); }
  ~FloatingPointPolicy() { _mm_setcsr(saved_); }
#else
  FloatingPointPolicy() = default;
#endif
  FloatingPointPolicy(const FloatingPointPolicy&) = delete;
  FloatingPointPolicy& operator=(const FloatingPointPolicy&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr uint32_t kFlushMaskedNearest = 0x1f80u | 0x8000u | 0x0040u;  // masks, FTZ, DAZ
  uint32_t saved_;
#endif
};

}  // namespace mhc
