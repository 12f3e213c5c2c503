#pragma once
// q[t,c] = sum_k phi[c,k] x[t,k] in broadcast form: a register tile of kRows tokens by up to
// kVectors vectors of phi (packed_phi.h); x is broadcast from L1, two units at a time, and phi
// comes as one stream in order of use.
//
// Plan, per step (two units of x) and tile of R = 8 tokens at m = 24 on 16 lanes: 3 vectors of phi
// loaded, 8 broadcasts, 24 multiply-adds; 192 B of phi per 24 multiply-adds (12 cycles at two a
// cycle) comes from L2, asked for kPhiAhead steps before. R = 1/2/4/8 was measured
// at 13.8/7.1/4.4/3.9 us per token elsewhere: the tile is what matters.
//
// Every token's sum is one chain per block of kFeatureBlock features and lane, and block sums are
// added in ascending order, whatever R is: a token's bits do not depend on its neighbours. Compiled
// once per ISA behind a base/simd header.

#include "kernels/common/count.h"
#include "kernels/common/packed_phi.h"

namespace mhc::MHC_ISA {

inline constexpr bool kPairs = VF::kLanes > 1;  // a step is two units, adjacent in a vector
inline constexpr int64_t kPhiAhead = 8;         // steps
inline constexpr int kMaxVectors = 3;           // 8 x 3 sums fit 32 registers, 4 x 3 fit 16

// One unit is a feature: x was widened to f32 before.
struct FmaUnit {
  using Word = float;
  static constexpr int64_t kFeatures = 1;
  static constexpr int64_t kParts = 1;
  using Phi = VF;
  MHC_INLINE static Phi load_phi(const uint32_t* p) {
    return load(reinterpret_cast<const float*>(p));
  }
  MHC_INLINE static Phi step(const Word* x) { return kPairs ? broadcast_pair(x) : broadcast(x); }
  MHC_INLINE static VF add(VF sum, Phi phi, Phi x) { return fma(phi, x, sum); }
};

#if MHC_ISA_HAS_DOT
// One unit is a pair of bf16 features, read where they lie. kParts 2: phi as hi + lo, good to
// 2^-18.
template <int64_t kPhiParts>
struct DotUnit {
  using Word = uint32_t;
  static constexpr int64_t kFeatures = 2;
  static constexpr int64_t kParts = kPhiParts;
  using Phi = VP;
  MHC_INLINE static Phi load_phi(const uint32_t* p) {
    return load_pairs(reinterpret_cast<const BF16*>(p));
  }
  MHC_INLINE static Phi step(const Word* x) {
    return broadcast_dot_quad(reinterpret_cast<const BF16*>(x));
  }
  MHC_INLINE static VF add(VF sum, Phi phi, Phi x) { return dot(sum, phi, x); }
};
#endif

// What to bring near meanwhile: the bytes of x that the next tile of kRows tokens begins with.
struct Ahead {
  const char* row[8];
  int64_t step_bytes;  // of x per step
};

// totals[r * stride + column] += block sum, for kRows tokens and kVectors vectors of phi.
template <class Unit, int kRows, int kVectors>
MHC_INLINE void project_tile(const typename Unit::Word* const* x, int64_t steps,
                             const uint32_t* phi, int64_t step_words, const Ahead* ahead,
                             float* totals, int64_t stride) {
  constexpr int64_t kL = VF::kLanes;
  constexpr int64_t kP = Unit::kParts;
  constexpr int64_t kStep = kPairs ? 2 : 1;
  constexpr int64_t kColumns = kPairs ? kL / 2 : 1;  // of a vector
  VF sum[kRows][kVectors];
  MHC_UNROLL for (int r = 0; r < kRows; ++r) {
    MHC_UNROLL for (int v = 0; v < kVectors; ++v) sum[r][v] = zero();
  }
  for (int64_t s = 0; s < steps; ++s, phi += step_words) {
    if (ahead != nullptr && s % 8 == 0) {
      MHC_UNROLL for (int r = 0; r < kRows; ++r) prefetch_l2(ahead->row[r] + s * ahead->step_bytes);
    }
    MHC_UNROLL for (int part = 0; part < kP; ++part) {
      typename Unit::Phi p[kVectors];
      MHC_UNROLL for (int v = 0; v < kVectors; ++v) {
        const uint32_t* vector = phi + (v * kP + part) * kL;
        p[v] = Unit::load_phi(vector);
        prefetch(vector + kPhiAhead * step_words);
      }
      MHC_UNROLL for (int r = 0; r < kRows; ++r) {
        const auto value = Unit::step(x[r] + kStep * s);
        MHC_UNROLL for (int v = 0; v < kVectors; ++v) sum[r][v] = Unit::add(sum[r][v], p[v], value);
      }
    }
  }
  MHC_UNROLL for (int r = 0; r < kRows; ++r) {
    MHC_UNROLL for (int v = 0; v < kVectors; ++v) {
      float* columns = totals + r * stride + v * kColumns;
      store(columns, load(columns, kColumns) + add_adjacent(sum[r][v]), kColumns);
    }
  }
}

// All columns of kRows tokens, in groups of vectors that the registers hold.
template <class Unit, int kRows>
inline void project_columns(const PackedPhiLayout& layout, const typename Unit::Word* const* x,
                            int64_t steps, const uint32_t* phi, const Ahead& ahead, float* totals,
                            int64_t stride) {
  const int64_t words = layout.step_words();
  int64_t v = 0;
  const auto run = [&](auto count) {
    constexpr int kVectors = decltype(count)::value;
    project_tile<Unit, kRows, kVectors>(x, steps, phi + v * Unit::kParts * VF::kLanes, words,
                                        v == 0 ? &ahead : nullptr, totals + v * layout.per_vector,
                                        stride);
    v += kVectors;
  };
  while (v < layout.vectors) {
    const int64_t left = layout.vectors - v;
    if (left == 1) {
      run(Count<1>{});
    } else if (left == 2 || left == 4) {  // 4 as 2 + 2, not 3 + 1
      run(Count<2>{});
    } else {
      run(Count<kMaxVectors>{});
    }
  }
}

}  // namespace mhc::MHC_ISA
