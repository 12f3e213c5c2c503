// q[t,c] = sum_k phi[c,k] x[t,k] in broadcast form: a register tile of kRows tokens by up to kColumns vectors of
// columns; x is broadcast from L1, phi comes as one stream in order of use, and no sum runs across lanes.
//
// Plan, per step (two units of x) and tile of R = 8 tokens at m = 24 on 16 lanes: 3 vectors of phi loaded, 24 broadcasts,
// 24 multiply-adds; 192 B of phi per 24 multiply-adds (12 cycles at two a cycle) comes from L2. R = 1/2/4/8 was
// measured at 13.8/7.1/4.4/3.9 us per token elsewhere: the tile is what matters.
//
// Every token's sum is one chain per block of kFeatureBlock features and lane, and block sums are added in ascending
// order, whatever R is: a token's bits do not depend on its neighbours. Compiled once per ISA behind a base/simd header.

#include "kernels/common/count.h"
#include "kernels/common/packed_phi.h"

namespace mhc::MHC_ISA {

// One unit is a feature: x was widened to f32 before.
struct FmaUnit {
  using Word = float;
  static constexpr int64_t kFeatures = 1;
  static constexpr int64_t kParts = 1;
  using Phi = VF;
  MHC_INLINE static Phi load_phi(const uint32_t* p) { return load(reinterpret_cast<const float*>(p)); }
  MHC_INLINE static Phi one(const Word* x) { return broadcast(x); }
  MHC_INLINE static Phi both(const Word* x) { return broadcast_pair(x); }
  MHC_INLINE static VF add(VF sum, Phi phi, Phi x) { return fma(phi, x, sum); }
};

#if MHC_ISA_HAS_DOT
// One unit is a pair of bf16 features, read where they lie. kParts 2: phi as hi + lo, good to 2^-18.
template <int64_t kPhiParts>
struct DotUnit {
  using Word = uint32_t;
  static constexpr int64_t kFeatures = 2;
  static constexpr int64_t kParts = kPhiParts;
  using Phi = VP;
  MHC_INLINE static Phi load_phi(const uint32_t* p) { return load_pairs(reinterpret_cast<const BF16*>(p)); }
  MHC_INLINE static Phi one(const Word* x) { return broadcast_dot_pair(reinterpret_cast<const BF16*>(x)); }
  MHC_INLINE static Phi both(const Word* x) { return broadcast_dot_quad(reinterpret_cast<const BF16*>(x)); }
  MHC_INLINE static VF add(VF sum, Phi phi, Phi x) { return dot(sum, phi, x); }
};
#endif

// What to bring near meanwhile: the bytes of x that the next tile of kRows tokens begins with.
struct Ahead {
  const char* row[8];
  int64_t step_bytes;  // of x per step
};

// totals[r * stride + column] += block sum, for kRows tokens, kFull vectors and kHalf half vectors of columns.
template <class Unit, int kRows, int kFull, int kHalf>
MHC_INLINE void project_tile(const typename Unit::Word* const* x, int64_t steps, const uint32_t* phi,
                             int64_t step_words, const Ahead* ahead, float* totals, int64_t stride) {
  constexpr int64_t kL = VF::kLanes;
  constexpr int64_t kP = Unit::kParts;
  VF sum[kRows][kFull + kHalf];
  MHC_UNROLL for (int r = 0; r < kRows; ++r) {
    MHC_UNROLL for (int c = 0; c < kFull + kHalf; ++c) sum[r][c] = zero();
  }
  for (int64_t s = 0; s < steps; ++s, phi += step_words) {
    if (ahead != nullptr && s % 8 == 0) {
      MHC_UNROLL for (int r = 0; r < kRows; ++r) prefetch_l2(ahead->row[r] + s * ahead->step_bytes);
    }
    MHC_UNROLL for (int u = 0; u < 2; ++u) {
      MHC_UNROLL for (int part = 0; part < kP; ++part) {
        typename Unit::Phi p[kFull + 1];
        MHC_UNROLL for (int c = 0; c < kFull; ++c) p[c] = Unit::load_phi(phi + ((2 * c + u) * kP + part) * kL);
        MHC_UNROLL for (int r = 0; r < kRows; ++r) {
          if constexpr (kFull > 0) {
            const auto value = Unit::one(x[r] + 2 * s + u);
            MHC_UNROLL for (int c = 0; c < kFull; ++c) sum[r][c] = Unit::add(sum[r][c], p[c], value);
          }
        }
      }
    }
    if constexpr (kHalf > 0) {
      MHC_UNROLL for (int part = 0; part < kP; ++part) {
        const auto p = Unit::load_phi(phi + (2 * kFull * kP + part) * kL);
        MHC_UNROLL for (int r = 0; r < kRows; ++r) {
          sum[r][kFull] = Unit::add(sum[r][kFull], p, Unit::both(x[r] + 2 * s));
        }
      }
    }
  }
  MHC_UNROLL for (int r = 0; r < kRows; ++r) {
    float* row = totals + r * stride;
    MHC_UNROLL for (int c = 0; c < kFull; ++c) store(row + c * kL, load(row + c * kL) + sum[r][c]);
    if constexpr (kHalf > 0) {
      float* rest = row + kFull * kL;
      store(rest, load(rest, kL / 2) + add_adjacent(sum[r][kFull]), kL / 2);
    }
  }
}

// All columns of kRows tokens, in groups that the registers hold.
template <class Unit, int kRows>
inline void project_columns(const PackedPhiLayout& layout, const typename Unit::Word* const* x, int64_t steps,
                            const uint32_t* phi, const Ahead& ahead, float* totals, int64_t stride) {
  constexpr int64_t kL = VF::kLanes;
  const int64_t words = layout.step_words();
  int64_t c = 0;
  const auto run = [&](auto full, auto half) {
    constexpr int kFull = decltype(full)::value;
    constexpr int kHalf = decltype(half)::value;
    project_tile<Unit, kRows, kFull, kHalf>(x, steps, phi + 2 * c * Unit::kParts * kL, words,
                                            c == 0 ? &ahead : nullptr, totals + c * kL, stride);
    c += kFull;
  };
  while (layout.full - c > 3 || (layout.full - c == 3 && layout.half == 0)) run(Count<3>{}, Count<0>{});
  if constexpr (kL >= 16) {
    if (layout.half != 0) {
      if (layout.full - c == 3) run(Count<2>{}, Count<0>{});
      if (layout.full - c == 2) return run(Count<2>{}, Count<1>{});
      if (layout.full - c == 1) return run(Count<1>{}, Count<1>{});
      return run(Count<0>{}, Count<1>{});
    }
  }
  if (layout.full - c == 2) return run(Count<2>{}, Count<0>{});
  if (layout.full - c == 1) return run(Count<1>{}, Count<0>{});
}

}  // namespace mhc::MHC_ISA
