// One visit of x per tile of tokens. Compiled once per ISA behind a base/simd header.
//
// Plan: a tile of 8 to 32 tokens (n * D * 2 bytes each: 24 KiB at n = 4, D = 3072, bf16) is
// projected block by block, so that a block of phi (48 KiB at m = 24) serves the whole tile; the
// gates then run one token per lane; the collapse finds the tile in L2. x comes from memory once:
// (n + 1) D elements move per token, nothing else of that size.

#include "kernels/common/chunk-inl.h"
#include "kernels/common/gates_calls-inl.h"
#include "kernels/common/mix-inl.h"
#include "kernels/common/pack-inl.h"
#include "kernels/common/phi-inl.h"
#include "kernels/common/project-inl.h"
#include "kernels/common/stage-inl.h"
#include "kernels/pre/pre_plan.h"

namespace mhc::MHC_ISA {

// Tokens of one register tile: 8 x 3 vectors fit 32 registers, 4 x 3 fit 16.
inline constexpr int kProjectRows = VF::kLanes >= 16 ? 8 : 4;

// The worker's memory, cut up.
struct PreScratch {
  uint32_t* words;     // [kProjectRows][kStageWords]
  float* totals;       // [tile][padded]
  float* sum_squares;  // [tile]
  float* h_pre;        // [tile][n]
  float* gates;
  MHC_INLINE PreScratch(const PrePlan& plan, float* scratch) {
    const auto take = [&](int64_t floats) {
      float* p = scratch;
      scratch += round_up(floats, 16);
      return p;
    };
    words = reinterpret_cast<uint32_t*>(take(8 * kStageWords));
    totals = take(plan.tile_tokens * plan.layout.padded());
    sum_squares = take(plan.tile_tokens);
    h_pre = take(plan.tile_tokens * plan.dims.streams);
    gates = take(0);
  }
};

// Where block `block` of token t begins.
template <class T>
MHC_INLINE const T* block_of(const PrePlan& plan, int64_t t, int64_t block) {
  const int64_t per_stream = ceil_div(plan.dims.embedding, kFeatureBlock);
  return plan.args->x.at<const T>(t, block / per_stream, block % per_stream * kFeatureBlock);
}

// A run of tokens whose block is being added to their totals; `next` begins the run and block that
// follow.
struct TileRun {
  int64_t t;
  int64_t count;
  int64_t block;
  int64_t next_t;
  int64_t next_block;
};

template <class T, class Unit, int kRows>
MHC_INLINE void project_rows(const PrePlan& plan, const TileRun& run, uint32_t* words,
                             float* totals, float* sum_squares) {
  using Word = typename Unit::Word;
  const int64_t embedding = plan.dims.embedding;
  const int64_t per_stream = ceil_div(embedding, kFeatureBlock);
  const int64_t i = run.block / per_stream;
  const int64_t in_stream = run.block % per_stream;
  const int64_t first = in_stream * kFeatureBlock;
  const int64_t count = embedding - first < kFeatureBlock ? embedding - first : kFeatureBlock;
  const Word* x[kRows];
  Ahead ahead;
  ahead.step_bytes = 2 * Unit::kFeatures * static_cast<int64_t>(sizeof(T));
  for (int r = 0; r < kRows; ++r) {
    x[r] = stage(Unit{}, block_of<T>(plan, run.t + r, run.block), count,
                 reinterpret_cast<Word*>(words + r * kStageWords), sum_squares + r);
    const bool within = run.count > kRows;
    const int64_t last = plan.dims.tokens - 1;
    const int64_t t = (within ? run.t + kRows : run.next_t) + r;
    ahead.row[r] = reinterpret_cast<const char*>(
        block_of<T>(plan, t < last ? t : last, within ? run.block : run.next_block));
  }
  project_columns<Unit, kRows>(plan.layout, x, plan.layout.steps(count),
                               plan.phi + plan.layout.block_offset(embedding, i, in_stream), ahead,
                               totals, plan.layout.padded());
}

template <class T, class Unit>
MHC_INLINE void project_block(const PrePlan& plan, TileRun run, uint32_t* words, float* totals,
                              float* sum_squares) {
  const auto step = [&](auto rows) {
    project_rows<T, Unit, decltype(rows)::value>(plan, run, words, totals, sum_squares);
    run.t += decltype(rows)::value;
    run.count -= decltype(rows)::value;
    totals += decltype(rows)::value * plan.layout.padded();
    sum_squares += decltype(rows)::value;
  };
  while (run.count >= kProjectRows) step(Count<kProjectRows>{});
  if (kProjectRows > 4 && run.count >= 4) step(Count<4>{});
  if (run.count >= 2) step(Count<2>{});
  if (run.count >= 1) step(Count<1>{});
}

// Adds the block to the tokens' totals with the unit that phi was packed for.
template <class T>
MHC_INLINE void project_any(const PrePlan& plan, const TileRun& run, uint32_t* words, float* totals,
                            float* sum_squares) {
#if MHC_ISA_HAS_DOT
  if constexpr (DTypeOf<T>::value == DType::kBF16) {
    if (plan.layout.parts == 2) {
      project_block<T, DotUnit<2>>(plan, run, words, totals, sum_squares);
    } else {
      project_block<T, DotUnit<1>>(plan, run, words, totals, sum_squares);
    }
    return;
  }
#endif
  project_block<T, FmaUnit>(plan, run, words, totals, sum_squares);
}

// layer_input of one token: the mix with one output.
template <class T, int64_t kN>
MHC_INLINE void collapse_row_of(const PrePlan& plan, int64_t t, const float* h) {
  const Tensor& x = plan.args->x;
  MixRows<T> rows;
  rows.inputs = plan.dims.streams;
  rows.outputs = 1;
  rows.weight = h;
  for (int64_t i = 0; i < rows.inputs; ++i) rows.in[i] = x.at<const T>(t, i);
  rows.out[0] = plan.args->layer_input.at<T>(t);
  mix<false, kN, kN == 0 ? 0 : 1>(rows, 0, plan.dims.embedding, plan.stream && can_stream(rows));
}

template <class T>
MHC_INLINE void collapse_row(const PrePlan& plan, int64_t t, const float* h_pre) {
  float h[kMaxStreams];
  load_weights<T>(h_pre, plan.dims.streams, plan.args->spec.h_pre_precision, h);
  switch (plan.dims.streams) {
    case 2:
      return collapse_row_of<T, 2>(plan, t, h);
    case 4:
      return collapse_row_of<T, 4>(plan, t, h);
    case 8:
      return collapse_row_of<T, 8>(plan, t, h);
    default:
      return collapse_row_of<T, 0>(plan, t, h);
  }
}

// Everything behind the projection, for tokens [t, t + count) of one tile.
template <class T>
MHC_INLINE void finish_tile(const PrePlan& plan, int64_t t, int64_t count, const PreScratch& s) {
  const PreArgs& args = *plan.args;
  const int64_t padded = plan.layout.padded();
  const int64_t n = plan.dims.streams;
  if (args.q.present()) {
    for (int64_t r = 0; r < count; ++r) {
      float* row = args.q.at<float>(t + r);
      for (int64_t c = 0; c < plan.layout.columns; ++c) row[c] = s.totals[r * padded + c];
    }
  }
  if (args.sum_squares.present()) {
    for (int64_t r = 0; r < count; ++r) *args.sum_squares.at<float>(t + r) = s.sum_squares[r];
  }
  if (plan.gates.alpha == nullptr) return;
  const bool collapse = args.layer_input.present();
  for (int64_t r = 0; r < count; r += VF::kLanes) {
    const int64_t lanes = count - r < VF::kLanes ? count - r : VF::kLanes;
    float* h_pre = args.h_pre.present() ? args.h_pre.at<float>(t + r) : s.h_pre + r * n;
    const GateRows rows{args.z.at_or_null<float>(t + r), args.inv_rms.at_or_null<float>(t + r),
                        collapse || args.h_pre.present() ? h_pre : nullptr,
                        args.h_post.at_or_null<float>(t + r), args.h_res.at_or_null<float>(t + r)};
    gates_forward(plan.gates, lanes, s.totals + r * padded, padded, s.sum_squares + r, rows,
                  s.gates);
    if (!collapse) continue;
    for (int64_t l = 0; l < lanes; ++l) {
      collapse_row<T>(plan, t + r + l, h_pre + l * n);
    }
  }
}

template <class T>
void pre_tokens(const PrePlan& plan, int64_t begin, int64_t end, float* scratch) {
  const PreScratch s(plan, scratch);
  for (int64_t t = begin; t < end; t += plan.tile_tokens) {
    const int64_t count = end - t < plan.tile_tokens ? end - t : plan.tile_tokens;
    for (int64_t k = 0; k < count * plan.layout.padded(); ++k) s.totals[k] = 0.0f;
    for (int64_t k = 0; k < count; ++k) s.sum_squares[k] = 0.0f;
    for (int64_t b = 0; b < plan.blocks; ++b) {
      const bool last = b + 1 == plan.blocks;
      const TileRun run{t, count, b, last ? t + count : t, last ? 0 : b + 1};
      project_any<T>(plan, run, s.words, s.totals, s.sum_squares);
    }
    finish_tile<T>(plan, t, count, s);
  }
  if (plan.stream) stream_fence();
}

// Few tokens: the blocks are the tasks. T * (padded + 1) floats of partial sums each.
template <class T>
void pre_partials(const PrePlan& plan, int64_t block, float* scratch) {
  const PreScratch s(plan, scratch);
  const int64_t tokens = plan.dims.tokens;
  float* totals = plan.partials + block * tokens * (plan.layout.padded() + 1);
  float* sum_squares = totals + tokens * plan.layout.padded();
  for (int64_t k = 0; k < tokens * (plan.layout.padded() + 1); ++k) totals[k] = 0.0f;
  project_any<T>(plan, {0, tokens, block, 0, block}, s.words, totals, sum_squares);
}

template <class T>
void pre_finish(const PrePlan& plan, int64_t begin, int64_t end, float* scratch) {
  const PreScratch s(plan, scratch);
  const int64_t tokens = plan.dims.tokens;
  const int64_t padded = plan.layout.padded();
  for (int64_t t = begin; t < end; t += plan.tile_tokens) {
    const int64_t count = end - t < plan.tile_tokens ? end - t : plan.tile_tokens;
    for (int64_t k = 0; k < count * padded; ++k) s.totals[k] = 0.0f;
    for (int64_t k = 0; k < count; ++k) s.sum_squares[k] = 0.0f;
    for (int64_t b = 0; b < plan.blocks; ++b) {
      const float* totals = plan.partials + b * tokens * (padded + 1);
      for (int64_t k = 0; k < count * padded; ++k) s.totals[k] += totals[t * padded + k];
      for (int64_t k = 0; k < count; ++k) s.sum_squares[k] += totals[tokens * padded + t + k];
    }
    finish_tile<T>(plan, t, count, s);
  }
  if (plan.stream) stream_fence();
}

inline void pre_pack(const PackedPhiLayout& layout, const Params& params, bool round,
                     const Dims& dims, int64_t block, float* scratch, uint32_t* packed) {
  const int64_t per_stream = ceil_div(dims.embedding, kFeatureBlock);
  pack_phi_block(layout, params, round, dims.embedding, dims.streams, block / per_stream,
                 block % per_stream, scratch, packed);
}

template <class T>
constexpr PreKernel pre_kernel(Isa isa, bool dot, const char* name) {
  return {isa,           DTypeOf<T>::value, dot,          name, VF::kLanes, pre_pack,
          pre_tokens<T>, pre_partials<T>,   pre_finish<T>};
}

}  // namespace mhc::MHC_ISA
