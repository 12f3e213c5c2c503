// Loops at the limit of memory and of the multiply-add units. Compiled once per ISA behind a
// base/simd header.

#include "mhc/roofline/roofline.h"

namespace mhc::MHC_ISA {

// Two units with a latency of four or five cycles need ten chains; twelve and two operands fit
// sixteen registers. One lane has four times as many, which compilers put into the vectors that
// every processor of the architecture has.
inline constexpr int64_t kChains = VF::kLanes == 1 ? 48 : 12;

template <bool kStream, bool kPrefetch>
MHC_INLINE VF mix_group(const tool::MixJob& job, const float* from, float* to) {
  constexpr int64_t kLine = 2 * VF::kLanes;  // a cache line of AVX2, two of AVX-512
  VF total = zero();
  for (int64_t k = 0; k < tool::kRowFloats; k += kLine) {
    VF a = zero();
    VF b = zero();
    for (int32_t r = 0; r < job.reads; ++r) {
      const float* row = from + r * tool::kRowFloats + k;
      if constexpr (kPrefetch) {
        prefetch(row + job.from_stride);
        if constexpr (kLine > 16) prefetch(row + job.from_stride + 16);
      }
      a = a + load(row);
      b = b + load(row + VF::kLanes);
    }
    for (int32_t w = 0; w < job.writes; ++w) {
      float* row = to + w * tool::kRowFloats + k;
      if constexpr (kStream) {
        stream(row, a, b);
      } else {
        store(row, a);
        store(row + VF::kLanes, b);
      }
    }
    total = total + (a + b);
  }
  return total;
}

template <bool kStream, bool kPrefetch>
float mix_groups(const tool::MixJob& job, int64_t begin, int64_t end) {
  VF total = zero();
  for (int64_t g = begin; g < end; ++g) {
    total = total + mix_group<kStream, kPrefetch>(job, job.from + g * job.from_stride,
                                                  job.to + g * job.to_stride);
  }
  if constexpr (kStream) stream_fence();
  return reduce_add(total);
}

static float mix(const tool::MixJob& job, int64_t begin, int64_t end) {
  if (job.stream) {
    return job.prefetch ? mix_groups<true, true>(job, begin, end)
                        : mix_groups<true, false>(job, begin, end);
  }
  return job.prefetch ? mix_groups<false, true>(job, begin, end)
                      : mix_groups<false, false>(job, begin, end);
}

MHC_INLINE float sum_of(const VF* chain) {
  VF sum = zero();
  MHC_UNROLL
  for (int64_t c = 0; c < kChains; ++c) sum = sum + chain[c];
  return reduce_add(sum);
}

static float multiply_add(int64_t rounds) {
  const VF a = splat(0.75f);
  const VF b = splat(static_cast<float>(rounds));  // nothing to compute beforehand
  VF chain[kChains];
  for (int64_t c = 0; c < kChains; ++c) chain[c] = splat(static_cast<float>(c));
  for (int64_t i = 0; i < rounds; ++i) {
    if constexpr (VF::kLanes == 1) {
      for (int64_t c = 0; c < kChains; ++c) chain[c] = fma(chain[c], a, b);
    } else {
      MHC_UNROLL
      for (int64_t c = 0; c < kChains; ++c) chain[c] = fma(chain[c], a, b);
    }
  }
  return sum_of(chain);
}

#if MHC_ISA_HAS_DOT
static float dot_pairs(int64_t rounds) {
  alignas(64) BF16 ones[32];
  for (BF16& one : ones) one = to_bf16(static_cast<float>(rounds));
  const VP a = load_pairs(ones);
  const VP b = broadcast_dot_pair(ones);
  VF chain[kChains];
  for (int64_t c = 0; c < kChains; ++c) chain[c] = splat(static_cast<float>(c));
  for (int64_t i = 0; i < rounds; ++i) {
    MHC_UNROLL
    for (int64_t c = 0; c < kChains; ++c) chain[c] = dot(chain[c], a, b);
  }
  return sum_of(chain);
}
#else
static constexpr float (*dot_pairs)(int64_t) = nullptr;
#endif

extern const tool::RooflineKernel kRoofline;
const tool::RooflineKernel kRoofline = {
    MHC_ROOFLINE_ISA, mix,
    multiply_add,     static_cast<double>(2 * kChains * VF::kLanes),
    dot_pairs,        kHasDot ? static_cast<double>(4 * kChains * VF::kLanes) : 0.0,
};

}  // namespace mhc::MHC_ISA
