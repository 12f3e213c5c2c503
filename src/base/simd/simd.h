#pragma once
// The vector layer: about thirty operations, one header per instruction set, the same names in all.
//
// An ISA file includes one of scalar.h, avx2.h, avx512.h, avx512bf16.h; each opens namespace
// mhc::<isa>, defines what follows there, and defines the macro MHC_ISA as its namespace's name, so
// that an -inl.h can say `namespace mhc::MHC_ISA { ... }`. Everything is forced inline.
//
//   struct VF                  kLanes floats (1, 8 or 16), undefined by default construction
//   VF + - * / VF, -VF         element by element
//   fma(a, b, c)               a * b + c, fused where the ISA fuses
//   splat(float), zero()       all lanes
//   constant(VF, double)       a constant, for the code that is generic over number types
//   broadcast(const float*)    one float from memory into all lanes
//   broadcast_pair(const float* p)     p[0], p[1], p[0], p[1], ... (kLanes >= 2)
//   load(const T* p)           T is float, BF16 or F16, widened
//   load(const T* p, count)    reads count elements, 0 <= count <= kLanes; 0 in the other lanes
//   store(T* p, VF)            narrowed to nearest even, NaN stays NaN
//   store(T* p, VF, count)     writes count elements
//   store(T* p, VF lo, VF hi)  2 * kLanes elements
//   stream(T* p, VF lo, VF hi) the same around the caches; p aligned to their size or to 64 bytes
//   load_mixed(const T* p, VF* a, VF* b)   2 * kLanes elements in the order that is cheapest here
//   store_mixed(T* p, VF a, VF b), stream_mixed   back from that order; for bf16, NaNs must have a
//                              zero lower half, as clean_nan leaves it and arithmetic keeps it
//   clean_nan(VF)              NaNs become 7fc00000
//   stream_fence()             after the last stream of a task
//   prefetch(const void* p)    into L1;  prefetch_l2
//   reduce_add(VF)             sum of the lanes in a fixed tree: halves added until one is left
//   add_adjacent(VF)           lanes 2l and 2l+1 added, results in the lower half (kLanes >= 2)
//   exp_of, abs_of, sqrt_of, max_of (NaN wins), select_greater(a, b, x, y)   as in base/number.h
//   is_finite_select(v, x, y)  |v| < inf ? x : y
//   round_bf16(VF)             to the nearest bf16, kept as float
//   round_to<T>(VF)            to the nearest T, kept as float
//
// Where kHasDot (avx512bf16; MHC_ISA_HAS_DOT is the same for the preprocessor):
//   struct VP                  kLanes pairs of bf16
//   dot(VF acc, VP a, VP b)    acc + a.odd * b.odd + a.even * b.even by two fused multiply-adds in
//                              this order, subnormals flushed
//   load_pairs(const BF16* p), load_pairs(p, count of bf16), store_pairs(BF16* p, VP)
//   broadcast_dot_pair(const BF16* p)  two bf16 into every pair
//   broadcast_dot_quad(const BF16* p)  four, alternating
//   narrow_pairs(VF even, VF odd)      interleaved to bf16 pairs
//   even(VP), odd(VP)                  widened
//
// Accuracy, tested in ulps against double: exp_of 2, everything else correctly rounded; inputs and
// results that are subnormal may be flushed (fpenv.h). A signalling NaN may become quiet.

#include <cstdint>

#include "base/dtype.h"
#include "base/macros.h"
