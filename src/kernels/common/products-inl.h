// The one reduction of the streaming operations, over the rows of one token:
//
//   sum[a][b] = sum_d left_a[d] right_b[d]       post_backward: left = x and layer_output, right =
//   d_x_next
//
// Lane by lane, partial sums over kFeatureBlock features are added in ascending order, so the bits
// depend on the features alone; the lanes are added at the end of the row. A register tile holds 5
// x 4 sums of 32 registers (n = 4 in one visit), 5 x 2 of 16; further tiles find the block's rows
// in L1. Products of bf16 are exact in f32: where there is a dot instruction it takes them as they
// lie in memory, one for 32 features in place of two multiply-adds and the widening. Compiled once
// per ISA behind a base/simd header.

#include "base/dims.h"

namespace mhc::MHC_ISA {

inline constexpr int64_t kLeftTile = 5;
inline constexpr int64_t kRightTile = VF::kLanes == 8 ? 2 : 4;

template <class T>
struct ProductRows {
  int64_t lefts = 0;
  int64_t rights = 0;
  const T* left[kMaxStreams + 1] = {};
  const T* right[kMaxStreams] = {};
};

// How features enter a product, kStep at a time.
template <class T>
struct Factors {
  using Vector = VF;
  static constexpr int64_t kStep = VF::kLanes;
  MHC_INLINE static VF get(const T* p) { return load(p); }
  MHC_INLINE static VF get(const T* p, int64_t count) { return load(p, count); }
  MHC_INLINE static VF add_product(VF sum, VF a, VF b) { return fma(a, b, sum); }
};
#if MHC_ISA_HAS_DOT
template <>
struct Factors<BF16> {
  using Vector = VP;
  static constexpr int64_t kStep = 2 * VF::kLanes;
  MHC_INLINE static VP get(const BF16* p) { return load_pairs(p); }
  MHC_INLINE static VP get(const BF16* p, int64_t count) { return load_pairs(p, count); }
  MHC_INLINE static VF add_product(VF sum, VP a, VP b) { return dot(sum, a, b); }
};
#endif

template <bool kWhole, int64_t kA, int64_t kB, class T>
MHC_INLINE void products_step(const T* const* left, const T* const* right, int64_t d, int64_t count,
                              VF (&sum)[kA][kB]) {
  using F = Factors<T>;
  typename F::Vector b[kB];
#pragma GCC unroll 4
  for (int64_t j = 0; j < kB; ++j) {
    b[j] = kWhole ? F::get(right[j] + d) : F::get(right[j] + d, count);
  }
#pragma GCC unroll 5
  for (int64_t i = 0; i < kA; ++i) {
    const auto a = kWhole ? F::get(left[i] + d) : F::get(left[i] + d, count);
#pragma GCC unroll 4
    for (int64_t j = 0; j < kB; ++j) sum[i][j] = F::add_product(sum[i][j], a, b[j]);
  }
}

// Features [begin, end), at most a block, into kA x kB of the totals, whose rows are `stride`
// apart.
template <class T, int64_t kA, int64_t kB>
static void products_tile(const T* const* left, const T* const* right, int64_t begin, int64_t end,
                          VF* totals, int64_t stride) {
  constexpr int64_t kStep = Factors<T>::kStep;
  VF sum[kA][kB];
#pragma GCC unroll 5
  for (int64_t i = 0; i < kA; ++i) {
#pragma GCC unroll 4
    for (int64_t j = 0; j < kB; ++j) sum[i][j] = zero();
  }
  int64_t d = begin;
  for (; d + kStep <= end; d += kStep) products_step<true>(left, right, d, kStep, sum);
  if (d < end) products_step<false>(left, right, d, end - d, sum);
#pragma GCC unroll 5
  for (int64_t i = 0; i < kA; ++i) {
#pragma GCC unroll 4
    for (int64_t j = 0; j < kB; ++j) {
      totals[i * stride + j] = totals[i * stride + j] + sum[i][j];
    }
  }
}

template <class T>
using ProductsTile = void (*)(const T* const*, const T* const*, int64_t, int64_t, VF*, int64_t);

template <class T, int64_t kA>
MHC_INLINE ProductsTile<T> products_tile_of(int64_t rights) {
  if constexpr (kRightTile > 2) {
    if (rights == 4) return products_tile<T, kA, 4>;
    if (rights == 3) return products_tile<T, kA, 3>;
  }
  return rights == 2 ? products_tile<T, kA, 2> : products_tile<T, kA, 1>;
}
template <class T>
MHC_INLINE ProductsTile<T> products_tile_of(int64_t lefts, int64_t rights) {
  switch (lefts) {
    case 1:
      return products_tile_of<T, 1>(rights);
    case 2:
      return products_tile_of<T, 2>(rights);
    case 3:
      return products_tile_of<T, 3>(rights);
    case 4:
      return products_tile_of<T, 4>(rights);
    default:
      return products_tile_of<T, 5>(rights);
  }
}

MHC_INLINE int64_t at_most(int64_t count, int64_t limit) { return count < limit ? count : limit; }

// totals [lefts][rights] += the sums over features [begin, end) of one block.
template <class T>
MHC_INLINE void add_products(const ProductRows<T>& rows, int64_t begin, int64_t end, VF* totals) {
  for (int64_t j = 0; j < rows.rights; j += kRightTile) {
    const int64_t rights = at_most(rows.rights - j, kRightTile);
    for (int64_t i = 0; i < rows.lefts; i += kLeftTile) {
      const int64_t lefts = at_most(rows.lefts - i, kLeftTile);
      products_tile_of<T>(lefts, rights)(rows.left + i, rows.right + j, begin, end,
                                         totals + i * rows.rights + j, rows.rights);
    }
  }
}

}  // namespace mhc::MHC_ISA
