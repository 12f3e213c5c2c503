// The one elementwise form of the streaming operations, over the rows of one token:
//
//   out_j[d] = sum_i weight[i][j] in_i[d]       post: in = x and layer_output, out = x_next
//
// A chunk of every input row is loaded before a chunk of any output row is stored, so an output row
// may be an input row. n = 4 with AVX-512: 10 vectors of input, 4 x 2 sums and one weight, of 32
// registers; with 16 registers two outputs at a time. Weights are broadcast from L1: 20 loads
// beside 40 multiply-adds and 5 loads of features. The next token's rows are prefetched into L2
// beside it: rows of a few KiB are too short for the hardware to do it, which costs 10 to 20 %.
// Compiled once per ISA behind a base/simd header and chunk-inl.h.

#include "base/tensor.h"
#include "manifold/spec.h"

namespace mhc::MHC_ISA {

inline constexpr int64_t kMaxRows = kMaxStreams + 1;
inline constexpr int64_t kOutputTile = VF::kLanes == 8 ? 2 : 4;

template <class T>
struct MixRows {
  int64_t inputs = 0;
  int64_t outputs = 0;
  const float* weight = nullptr;  // [inputs][outputs]
  const T* in[kMaxRows] = {};
  int64_t ahead[kMaxRows] = {};  // from an input row to the one to prefetch
  T* out[kMaxStreams] = {};
};

// Gates as the mix uses them: rounded to T first where the spec says so. NaNs are made clean for
// store_mixed; those of bf16 features are.
template <class T>
MHC_INLINE void load_weights(const float* from, int64_t count, GatePrecision precision, float* to) {
  for (int64_t k = 0; k < count; k += VF::kLanes) {
    const int64_t part = at_most(count - k, VF::kLanes);
    const VF h = clean_nan(load(from + k, part));
    store(to + k, precision == GatePrecision::kActivation ? round_to<T>(h) : h, part);
  }
}

// The same with a scale folded in; absent weights are 1.
template <class T>
MHC_INLINE void load_scaled_weights(const Tensor& weights, int64_t t, int64_t count,
                                    GatePrecision precision, float scale, float* to) {
  if (weights.present()) {
    load_weights<T>(weights.at<float>(t), count, precision, to);
  } else {
    for (int64_t k = 0; k < count; ++k) to[k] = 1.0f;
  }
  for (int64_t k = 0; k < count; ++k) to[k] *= scale;
}

// sum_j += weight[j] x for kTile outputs.
template <int64_t kTile>
MHC_INLINE void add_input(const float* weight, const Chunk& x, Chunk* sum) {
#pragma GCC unroll 4
  for (int64_t j = 0; j < kTile; ++j) {
    const VF w = broadcast(weight + j);
    sum[j] = {fma(w, x.a, sum[j].a), fma(w, x.b, sum[j].b)};
  }
}

// kTile outputs from x, the chunks of all inputs; weight and out begin at the first of them.
template <Access kAccess, int64_t kIn, int64_t kOut, int64_t kTile, class T>
MHC_INLINE void mix_tile(const MixRows<T>& rows, const float* weight, const Chunk* x, T* const* out,
                         int64_t to, int64_t count) {
  Chunk sum[kTile];
#pragma GCC unroll 4
  for (int64_t j = 0; j < kTile; ++j) {  // not added to zero, which would turn -0 into +0
    const VF w = broadcast(weight + j);
    sum[j] = {w * x[0].a, w * x[0].b};
  }
  if constexpr (kIn > 0) {
#pragma GCC unroll 16
    for (int64_t i = 1; i < kIn; ++i) add_input<kTile>(weight + i * kOut, x[i], sum);
  } else {
    for (int64_t i = 1; i < rows.inputs; ++i) {
      add_input<kTile>(weight + i * rows.outputs, x[i], sum);
    }
  }
#pragma GCC unroll 4
  for (int64_t j = 0; j < kTile; ++j) store_chunk<kAccess>(out[j] + to, sum[j], count);
}

// Features from d on, to `out` from `to` on. kIn and kOut are the numbers of rows, both 0 when they
// are known at run time only.
template <Access kAccess, int64_t kIn, int64_t kOut, class T>
MHC_INLINE void mix_chunk(const MixRows<T>& rows, int64_t d, T* const* out, int64_t to,
                          int64_t count) {
  constexpr int64_t kTile = kOut > 0 && kOut < kOutputTile ? kOut : kOutputTile;
  Chunk x[kIn > 0 ? kIn : kMaxRows];
  if constexpr (kIn > 0) {
#pragma GCC unroll 16
    for (int64_t i = 0; i < kIn; ++i) x[i] = load_chunk<kAccess>(rows.in[i] + d, count);
#pragma GCC unroll 4
    for (int64_t j = 0; j < kOut; j += kTile) {
      mix_tile<kAccess, kIn, kOut, kTile>(rows, rows.weight + j, x, out + j, to, count);
    }
  } else {
    for (int64_t i = 0; i < rows.inputs; ++i) x[i] = load_chunk<kAccess>(rows.in[i] + d, count);
    int64_t j = 0;
    for (; j + kTile <= rows.outputs; j += kTile) {
      mix_tile<kAccess, 0, 0, kTile>(rows, rows.weight + j, x, out + j, to, count);
    }
    for (; j < rows.outputs; ++j) {
      mix_tile<kAccess, 0, 0, 1>(rows, rows.weight + j, x, out + j, to, count);
    }
  }
}

// Fewer features than a step, at the ends of a row.
template <class T>
static void mix_part(const MixRows<T>& rows, int64_t d, int64_t count) {
  for (; count > 0; d += kChunk, count -= kChunk) {
    mix_chunk<Access::kPart, 0, 0>(rows, d, rows.out, d, at_most(count, kChunk));
  }
}

// A step whose chunks are less than a line, around the caches: whole lines are put together in L1,
// because a line that other lines are written between goes to memory in pieces.
template <int64_t kIn, int64_t kOut, class T>
MHC_INLINE void mix_lines(const MixRows<T>& rows, int64_t d) {
  const int64_t outputs = kOut > 0 ? kOut : rows.outputs;
  alignas(kLineBytes) T line[kOut > 0 ? kOut : kMaxStreams][kStep<T>];
  T* staged[kOut > 0 ? kOut : kMaxStreams];
  for (int64_t j = 0; j < outputs; ++j) staged[j] = line[j];
  for (int64_t c = 0; c < kStep<T>; c += kChunk) {
    mix_chunk<Access::kWhole, kIn, kOut>(rows, d + c, staged, c, kChunk);
  }
  for (int64_t j = 0; j < outputs; ++j) {
    const auto* from = reinterpret_cast<const float*>(line[j]);
    auto* to = reinterpret_cast<float*>(rows.out[j] + d);
    for (int64_t k = 0; k < kLineBytes / 4; k += kChunk) {
      stream(to + k, load(from + k), load(from + k + VF::kLanes));
    }
  }
}

template <bool kStreaming, bool kPrefetch, int64_t kIn, int64_t kOut, class T>
MHC_INLINE void mix_step(const MixRows<T>& rows, int64_t d) {
  if constexpr (kPrefetch) {
    const int64_t inputs = kIn > 0 ? kIn : rows.inputs;
    for (int64_t i = 0; i < inputs; ++i) prefetch_step(rows.in[i] + rows.ahead[i] + d);
  }
  if constexpr (kStreaming && kChunk * sizeof(T) < kLineBytes) {
    mix_lines<kIn, kOut>(rows, d);
  } else {
    constexpr Access kAccess = kStreaming ? Access::kStream : Access::kWhole;
    for (int64_t c = 0; c < kStep<T>; c += kChunk) {
      mix_chunk<kAccess, kIn, kOut>(rows, d + c, rows.out, d + c, kChunk);
    }
  }
}

// Whether all output rows reach the beginning of a line at the same feature.
template <class T>
MHC_INLINE bool can_stream(const MixRows<T>& rows) {
  if (VF::kLanes == 1) return false;
  const auto first = reinterpret_cast<uintptr_t>(rows.out[0]);
  uintptr_t difference = first % sizeof(T);
  for (int64_t j = 1; j < rows.outputs; ++j) {
    difference |= reinterpret_cast<uintptr_t>(rows.out[j]) - first;
  }
  return difference % uintptr_t{kLineBytes} == 0;
}

// Where a mix that follows another pass block by block stops behind feature d: at the beginning of
// a line, so that the next block begins there.
template <class T>
MHC_INLINE int64_t mix_stop(const MixRows<T>& rows, int64_t d, int64_t features, bool streaming) {
  if (!streaming || d >= features) return at_most(d, features);
  const int64_t head = unaligned_head(rows.out[0] + d);
  return head == 0 ? d : d + head - kLineBytes / static_cast<int64_t>(sizeof(T));
}

// Features [begin, end). Streaming wants can_stream(rows); kPrefetch, rows.ahead.
template <bool kPrefetch, int64_t kIn, int64_t kOut, class T>
static void mix(const MixRows<T>& rows, int64_t begin, int64_t end, bool streaming) {
  int64_t d = begin;
  if (streaming) {
    const int64_t head = at_most(unaligned_head(rows.out[0] + begin), end - begin);
    mix_part(rows, d, head);
    d += head;
    for (; d + kStep<T> <= end; d += kStep<T>) mix_step<true, kPrefetch, kIn, kOut>(rows, d);
  } else {
    for (; d + kStep<T> <= end; d += kStep<T>) mix_step<false, kPrefetch, kIn, kOut>(rows, d);
  }
  mix_part(rows, d, end - d);
}

}  // namespace mhc::MHC_ISA
