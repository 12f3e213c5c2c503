#pragma once
// The terms of d_x besides the one through phi: which there are, and where a token's stand. Compiled
// once per ISA.

#include "kernels/pre_backward/pre_backward_tile-inl.h"

namespace mhc::MHC_ISA {

// The terms of d_x besides those through phi and the norm. The usual call, both of lazy and reads
// on a whole panel, is compiled for itself (kUsual), and again with the usual number of streams as
// a constant (kConstantStreams > 0).
template <bool kUsual, int kConstantStreams>
struct Terms {
  static constexpr bool kWhole = kUsual;
  static constexpr int kStreams = kConstantStreams;
  bool lazy;   // h_res g
  bool reads;  // h_pre du
  bool eager;  // a ready d_x of post
  bool keeps;  // x, for d_phi
  int64_t n;
  MHC_INLINE explicit Terms(const PreBackwardPlan& plan)
      : lazy(kUsual || (plan.args->d_x.present() && plan.args->d_x_next.present())),
        reads(kUsual || (plan.args->d_x.present() && plan.args->d_layer_input.present())),
        eager(!kUsual && plan.args->d_x_post.present()),
        keeps(plan.need_d_phi),
        n(kStreams > 0 ? kStreams : plan.dims.streams) {}
};

// What a token's other terms are made of, its lines of one panel first; local copies, as the stores
// could otherwise be to where these stand.
template <class T>
struct TokenTerms {
  struct Lines {
    const T* p = nullptr;
    int64_t per_token = 0;
    int64_t per_stream = 0;
    MHC_INLINE Lines(const Tensor& tensor, bool used, int64_t t, int64_t feature) {
      if (!used) return;
      p = tensor.at<const T>(t) + feature;
      per_token = stride_of(tensor, 0);
      per_stream = tensor.rank == 3 ? stride_of(tensor, 1) : 0;
    }
    MHC_INLINE const T* stream(int64_t i) const { return p + i * per_stream; }
    MHC_INLINE void advance() { p += per_token; }
  };
  Lines x, g, du, post, d_x;
  const float* norm;
  const float* h_pre;
  const float* h_res;
  const float* sums;  // through phi
  float* kept;        // x widened, for d_phi
  bool stream_it;

  template <class Term>
  MHC_INLINE TokenTerms(const PreBackwardPlan& plan, const Term& term, int64_t t, int64_t block,
                        const PanelScratch& s)
      : x(plan.args->x, true, t, s.first),
        g(plan.args->d_x_next, term.lazy, t, s.first),
        du(plan.args->d_layer_input, term.reads, t, s.first),
        post(plan.args->d_x_post, term.eager, t, s.first),
        d_x(plan.args->d_x, true, t, s.first),
        norm(plan.norm + (t - plan.wave_begin)),
        h_pre(plan.h_pre + (t - plan.wave_begin) * term.n),
        h_res(plan.h_res + (t - plan.wave_begin) * term.n * term.n),
        sums(s.sums),
        kept(s.x + (t - block) * kPanel),
        stream_it(plan.stream) {}
  MHC_INLINE void advance(int64_t n) {
    x.advance();
    g.advance();
    du.advance();
    post.advance();
    d_x.advance();
    norm += 1;
    h_pre += n;
    h_res += n * n;
    sums += kPanel;
    kept += kPanel;
  }
};

}  // namespace mhc::MHC_ISA
