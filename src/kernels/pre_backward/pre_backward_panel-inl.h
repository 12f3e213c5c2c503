// Second phase of pre_backward: d_x and d_phi of one panel of 32 features for a wave of tokens. Compiled once per ISA.
//
// Plan (n = 4, m = 24): the panel of phi (n * m * 128 B = 12 KB) is folded once and stays in L1 for all tokens of the wave.
//   d_x    register tiles of kTileRows tokens by 2 vectors: per coefficient 2 loads of phi, kTileRows broadcasts of d_q,
//          2 kTileRows multiply-adds. The tokens' g is widened once for all n input streams.
//   d_phi  register tiles of kTileColumns coefficients by 2 vectors over kTokenBlock tokens: per token 2 vectors of x,
//          kTileColumns broadcasts. x is widened with the first tile and kept (128 * 128 B = 16 KB) for the others.
// The accumulators lie as [panel][n][m][32], so that a tile's rows are adjacent: as rows of [m][n][D] they would share one or
// two cache sets. Sums over tokens are one chain per block of kTokenBlock, blocks are added in ascending order.

#include "kernels/common/count.h"
#include "kernels/common/phi-inl.h"
#include "kernels/pre_backward/pre_backward_plan.h"

namespace mhc::MHC_ISA {

inline constexpr int kTileRows = VF::kLanes >= 16 ? 8 : 6;
inline constexpr int kTileColumns = VF::kLanes >= 16 ? 12 : 6;
inline constexpr int64_t kPair = 2 * VF::kLanes;  // features of a register tile; kPanel is a multiple

// One panel: where it lies, and the worker's memory.
struct PanelScratch {
  int64_t first;  // feature
  int64_t count;  // features that exist, <= kPanel
  float* phi;     // [n][m][kPanel], zeros past count
  float* g;       // [kTileRows][n][kPanel]
  float* du;      // [kTileRows][kPanel]
  float* x;       // [kTokenBlock][kPanel]
  MHC_INLINE PanelScratch(const PreBackwardPlan& plan, int64_t panel, float* scratch) {
    first = panel * kPanel;
    count = plan.dims.embedding - first < kPanel ? plan.dims.embedding - first : kPanel;
    phi = scratch;
    g = phi + plan.panel_floats();
    du = g + kTileRows * plan.dims.streams * kPanel;
    x = du + kTileRows * kPanel;
  }
};

// kPair elements at p + offset, those at or past count being zero.
template <class T>
MHC_INLINE void load_two(const T* p, int64_t offset, int64_t count, VF* lo, VF* hi) {
  constexpr int64_t kL = VF::kLanes;
  const int64_t left = count - offset;
  if (left >= kPair) {
    *lo = load(p + offset);
    *hi = load(p + offset + kL);
  } else {
    *lo = left <= 0 ? zero() : load(p + offset, left < kL ? left : kL);
    *hi = left <= kL ? zero() : load(p + offset + kL, left - kL);
  }
}

template <class T>
MHC_INLINE void store_two(T* p, int64_t offset, int64_t count, bool stream_it, VF lo, VF hi) {
  constexpr int64_t kL = VF::kLanes;
  const int64_t left = count - offset;
  if (left >= kPair) {
    if (stream_it) {
      stream(p + offset, lo, hi);
    } else {
      store(p + offset, lo, hi);
    }
    return;
  }
  if (left > 0) store(p + offset, lo, left < kL ? left : kL);
  if (left > kL) store(p + offset + kL, hi, left - kL);
}

// phi_eff of the panel, rounded as forward rounded it.
MHC_INLINE void fold_panel(const PreBackwardPlan& plan, const PanelScratch& s) {
  const Params& params = plan.args->params;
  const int64_t n = plan.dims.streams;
  const int64_t m = plan.gates.coefficients;
  const bool round = plan.args->spec.phi_precision == Precision::kBFloat16;
  const bool folded = params.norm_weight.present();
  for (int64_t i = 0; i < n; ++i) {
    float weight[kPanel];
    if (folded) load_row(params.norm_weight, i * plan.dims.embedding + s.first, s.count, weight);
    for (int64_t c = 0; c < m; ++c) {
      float* row = s.phi + (i * m + c) * kPanel;
      for (int64_t k = s.count; k < kPanel; ++k) row[k] = 0.0f;
      load_row(params.phi, (c * n + i) * plan.dims.embedding + s.first, s.count, row);
      if (folded || round) fold_row(folded ? weight : nullptr, round, s.count, row);
    }
  }
}

// rows[r][k] = p of token t + r, widened, zeros past the end.
template <class T>
MHC_INLINE void widen_row(const T* p, int64_t count, float* row) {
  for (int64_t k = 0; k < kPanel; k += kPair) {
    VF lo, hi;
    load_two(p, k, count, &lo, &hi);
    store(row + k, lo);
    store(row + k + VF::kLanes, hi);
  }
}

// The four terms of d_x for tokens [t, t + kRows), all streams, added in f32 and rounded once.
template <class T, int kRows>
MHC_INLINE void d_x_tile(const PreBackwardPlan& plan, int64_t t, const PanelScratch& s) {
  const PreBackwardArgs& args = *plan.args;
  const int64_t n = plan.dims.streams;
  const int64_t m = plan.gates.coefficients;
  const int64_t row = t - plan.wave_begin;
  const bool lazy = args.d_x_next.present();
  const bool reads = args.d_layer_input.present();
  for (int r = 0; r < kRows; ++r) {
    if (reads) widen_row(args.d_layer_input.at<const T>(t + r, s.first), s.count, s.du + r * kPanel);
    for (int64_t j = 0; lazy && j < n; ++j) {
      widen_row(args.d_x_next.at<const T>(t + r, j, s.first), s.count, s.g + (r * n + j) * kPanel);
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < kPanel && k < s.count; k += kPair) {
      VF sum[kRows][2];
      MHC_UNROLL for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = zero();
      const float* phi = s.phi + i * m * kPanel + k;
      const float* d_q = plan.d_q + row * m;
      for (int64_t c = 0; c < m; ++c, phi += kPanel) {
        const VF lo = load(phi);
        const VF hi = load(phi + VF::kLanes);
        MHC_UNROLL for (int r = 0; r < kRows; ++r) {
          const VF q = broadcast(d_q + r * m + c);
          sum[r][0] = fma(q, lo, sum[r][0]);
          sum[r][1] = fma(q, hi, sum[r][1]);
        }
      }
      MHC_UNROLL for (int r = 0; r < kRows; ++r) {
        VF lo, hi;
        load_two(args.x.at<const T>(t + r, i, s.first), k, s.count, &lo, &hi);
        const VF norm = splat(-plan.norm[row + r]);
        VF a = fma(norm, lo, sum[r][0]);
        VF b = fma(norm, hi, sum[r][1]);
        if (reads) {
          const VF h = splat(plan.h_pre[(row + r) * n + i]);
          a = fma(h, load(s.du + r * kPanel + k), a);
          b = fma(h, load(s.du + r * kPanel + k + VF::kLanes), b);
        }
        for (int64_t j = 0; lazy && j < n; ++j) {
          const VF h = splat(plan.h_res[((row + r) * n + i) * n + j]);
          a = fma(h, load(s.g + (r * n + j) * kPanel + k), a);
          b = fma(h, load(s.g + (r * n + j) * kPanel + k + VF::kLanes), b);
        }
        if (args.d_x_post.present()) {
          load_two(args.d_x_post.at<const T>(t + r, i, s.first), k, s.count, &lo, &hi);
          a = a + lo;
          b = b + hi;
        }
        store_two(args.d_x.at<T>(t + r, i, s.first), k, s.count, plan.stream, a, b);
      }
    }
  }
}

template <class T>
MHC_INLINE void d_x_block(const PreBackwardPlan& plan, int64_t t, int64_t end, const PanelScratch& s) {
  for (; t + kTileRows <= end; t += kTileRows) d_x_tile<T, kTileRows>(plan, t, s);
  for (; t + 2 <= end; t += 2) d_x_tile<T, 2>(plan, t, s);
  if (t < end) d_x_tile<T, 1>(plan, t, s);
}

// accumulators[c][k..] (+)= sum over tokens [t, end) of d_q[c] x[k..], for kColumns coefficients.
template <class T, int kColumns>
MHC_INLINE void d_phi_tile(const PreBackwardPlan& plan, int64_t t, int64_t end, int64_t i, int64_t c,
                           int64_t k, bool widen, bool first, const PanelScratch& s, float* accumulators) {
  const int64_t m = plan.gates.coefficients;
  const float* d_q = plan.d_q + (t - plan.wave_begin) * m + c;
  VF sum[kColumns][2];
  MHC_UNROLL for (int j = 0; j < kColumns; ++j) sum[j][0] = sum[j][1] = zero();
  float* kept = s.x + k;
  for (; t < end; ++t, d_q += m, kept += kPanel) {
    VF lo, hi;
    if (widen) {
      load_two(plan.args->x.at<const T>(t, i, s.first), k, s.count, &lo, &hi);
      store(kept, lo);
      store(kept + VF::kLanes, hi);
    } else {
      lo = load(kept);
      hi = load(kept + VF::kLanes);
    }
    MHC_UNROLL for (int j = 0; j < kColumns; ++j) {
      const VF q = broadcast(d_q + j);
      sum[j][0] = fma(q, lo, sum[j][0]);
      sum[j][1] = fma(q, hi, sum[j][1]);
    }
  }
  MHC_UNROLL for (int j = 0; j < kColumns; ++j) {
    float* row = accumulators + (c + j) * kPanel + k;
    store(row, first ? sum[j][0] : load(row) + sum[j][0]);
    store(row + VF::kLanes, first ? sum[j][1] : load(row + VF::kLanes) + sum[j][1]);
  }
}

template <class T>
MHC_INLINE void d_phi_block(const PreBackwardPlan& plan, int64_t t, int64_t end, bool first,
                            const PanelScratch& s, float* accumulators) {
  const int64_t m = plan.gates.coefficients;
  for (int64_t i = 0; i < plan.dims.streams; ++i) {
    float* rows = accumulators + i * m * kPanel;
    for (int64_t k = 0; k < kPanel && k < s.count; k += kPair) {
      int64_t c = 0;
      const auto run = [&](auto columns) {
        constexpr int kColumns = decltype(columns)::value;
        if (c == 0) {
          d_phi_tile<T, kColumns>(plan, t, end, i, c, k, true, first, s, rows);
        } else {
          d_phi_tile<T, kColumns>(plan, t, end, i, c, k, false, first, s, rows);
        }
        c += kColumns;
      };
      while (m - c >= kTileColumns) run(Count<kTileColumns>{});
      if (kTileColumns > 8 && m - c >= 8) run(Count<8>{});
      if (m - c >= 4) run(Count<4>{});
      if (m - c >= 2) run(Count<2>{});
      if (m - c >= 1) run(Count<1>{});
    }
  }
}

template <class T>
void backward_panel(const PreBackwardPlan& plan, int64_t group, int64_t panel, float* scratch) {
  const PanelScratch s(plan, panel, scratch);
  if (plan.args->d_x.present()) fold_panel(plan, s);
  for (int64_t block = ceil_div(plan.wave_begin, kTokenBlock); block * kTokenBlock < plan.wave_end; ++block) {
    if (block % plan.groups != group) continue;
    const int64_t begin = block * kTokenBlock;
    const int64_t end = begin + kTokenBlock < plan.wave_end ? begin + kTokenBlock : plan.wave_end;
    if (plan.need_d_phi) d_phi_block<T>(plan, begin, end, block == group, s, plan.accumulator(group, panel));
    if (plan.args->d_x.present()) d_x_block<T>(plan, begin, end, s);
  }
  if (plan.stream) stream_fence();
}

}  // namespace mhc::MHC_ISA
