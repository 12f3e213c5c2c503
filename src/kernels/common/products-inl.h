// The one reduction of the streaming operations, over the rows of one token:
//
//   sum[a][b] = sum_d left_a[d] right_b[d]     post_backward: x and layer_output by d_x_next
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
inline constexpr int64_t kMaxLefts = kMaxStreams + 1;

template <class T>
struct ProductRows {
  int64_t lefts = 0;
  int64_t rights = 0;
  const T* left[kMaxLefts] = {};
  const T* right[kMaxStreams] = {};
  // The next token's rows, to be prefetched into L2 at the same features.
  int64_t fetches = 0;
  const T* fetch[kMaxLefts + kMaxStreams] = {};
};

// How features enter a product, kFeatures at a time.
template <class T>
struct Factors {
  using Vector = VF;
  static constexpr int64_t kFeatures = VF::kLanes;
  MHC_INLINE static VF get(const T* p) { return load(p); }
  MHC_INLINE static VF get(const T* p, int64_t count) { return load(p, count); }
  MHC_INLINE static VF add_product(VF sum, VF a, VF b) { return fma(a, b, sum); }
};
#if MHC_ISA_HAS_DOT
template <>
struct Factors<BF16> {
  using Vector = VP;
  static constexpr int64_t kFeatures = 2 * VF::kLanes;
  MHC_INLINE static VP get(const BF16* p) { return load_pairs(p); }
  MHC_INLINE static VP get(const BF16* p, int64_t count) { return load_pairs(p, count); }
  MHC_INLINE static VF add_product(VF sum, VP a, VP b) { return dot(sum, a, b); }
};
#endif

template <bool kWhole, int64_t kA, int64_t kB, class T>
MHC_INLINE void add_features(const T* const* left, const T* const* right, int64_t d, int64_t count,
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

// A tile of rows, the features of it to visit and the rows to prefetch meanwhile.
struct ProductTile {
  int64_t i, j;  // the first left and right row
  int64_t begin, end;
  int64_t first_fetch, last_fetch;
};

// kA x kB products over features of one block.
template <class T, int64_t kA, int64_t kB>
static void add_products_tile(const ProductRows<T>& rows, const ProductTile& tile, VF* totals) {
  constexpr int64_t kFeatures = Factors<T>::kFeatures;
  const auto [i, j, begin, end, first_fetch, last_fetch] = tile;
  const T* left[kA];
  const T* right[kB];
  VF sum[kA][kB];
#pragma GCC unroll 5
  for (int64_t a = 0; a < kA; ++a) {
    left[a] = rows.left[i + a];
#pragma GCC unroll 4
    for (int64_t b = 0; b < kB; ++b) sum[a][b] = zero();
  }
#pragma GCC unroll 4
  for (int64_t b = 0; b < kB; ++b) right[b] = rows.right[j + b];
  int64_t d = begin;
  for (; d + kStep<T> <= end; d += kStep<T>) {
    for (int64_t r = first_fetch; r < last_fetch; ++r) prefetch_step(rows.fetch[r] + d);
    for (int64_t k = 0; k < kStep<T>; k += kFeatures) {
      add_features<true>(left, right, d + k, kFeatures, sum);
    }
  }
  for (; d < end; d += kFeatures) {
    add_features<false>(left, right, d, at_most(end - d, kFeatures), sum);
  }
#pragma GCC unroll 5
  for (int64_t a = 0; a < kA; ++a) {
#pragma GCC unroll 4
    for (int64_t b = 0; b < kB; ++b) {
      VF& total = totals[(i + a) * rows.rights + j + b];
      total = total + sum[a][b];
    }
  }
}

template <class T>
using AddProductsTile = void (*)(const ProductRows<T>&, const ProductTile&, VF*);

template <class T, int64_t kA, int64_t kMaxRights>
MHC_INLINE AddProductsTile<T> tile_of(int64_t rights) {
  if constexpr (kMaxRights > 1 && kRightTile > 2) {
    if (rights == 4) return add_products_tile<T, kA, 4>;
    if (rights == 3) return add_products_tile<T, kA, 3>;
  }
  if constexpr (kMaxRights > 1) {
    if (rights == 2) return add_products_tile<T, kA, 2>;
  }
  return add_products_tile<T, kA, 1>;
}
template <class T, int64_t kMaxRights>
MHC_INLINE AddProductsTile<T> tile_of(int64_t lefts, int64_t rights) {
  switch (lefts) {
    case 1:
      return tile_of<T, 1, kMaxRights>(rights);
    case 2:
      return tile_of<T, 2, kMaxRights>(rights);
    case 3:
      return tile_of<T, 3, kMaxRights>(rights);
    case 4:
      return tile_of<T, 4, kMaxRights>(rights);
    default:
      return tile_of<T, 5, kMaxRights>(rights);
  }
}

// totals [lefts][rights] += the sums over features [begin, end) of one block. Each tile prefetches
// its share.
template <int64_t kMaxRights, class T>
MHC_INLINE void add_products(const ProductRows<T>& rows, int64_t begin, int64_t end, VF* totals) {
  const int64_t tiles = ceil_div(rows.lefts, kLeftTile) * ceil_div(rows.rights, kRightTile);
  ProductTile tile{0, 0, begin, end, 0, 0};
  int64_t done = 0;
  for (tile.j = 0; tile.j < rows.rights; tile.j += kRightTile) {
    for (tile.i = 0; tile.i < rows.lefts; tile.i += kLeftTile) {
      ++done;
      tile.first_fetch = tile.last_fetch;
      tile.last_fetch = rows.fetches * done / tiles;
      tile_of<T, kMaxRights>(at_most(rows.lefts - tile.i, kLeftTile),
                             at_most(rows.rights - tile.j, kRightTile))(rows, tile, totals);
    }
  }
}

}  // namespace mhc::MHC_ISA
