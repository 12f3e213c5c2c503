#pragma once
// Unconstrained (HC without its norms and tanh): h_res is the logits themselves, what mHC is
// compared with.

#include "manifold/manifold.h"

namespace mhc {

struct Unconstrained {
  static constexpr int32_t id = 2;
  static constexpr const char* name = "unconstrained";
  static constexpr const char* summary = "h_res = logits; nothing keeps deep products bounded (HC)";
  static constexpr int64_t max_streams = 16;
  static constexpr Marginals marginals{false, false, false};

  static constexpr int64_t logits(int64_t n) { return n * n; }
  static constexpr int64_t scratch_size(int64_t, const ManifoldOptions&) { return 0; }
  static constexpr double marginal_tolerance(int64_t, const ManifoldOptions&) { return 0; }

  template <class V>
  MHC_INLINE static void forward(int64_t n, const ManifoldOptions&, const V* logits, V* h_res, V*) {
    for (int64_t k = 0; k < n * n; ++k) h_res[k] = logits[k];
  }

  template <class V>
  MHC_INLINE static void backward(int64_t n, const ManifoldOptions&, const V*, const V* d_h_res,
                                  V* d_logits, V*) {
    for (int64_t k = 0; k < n * n; ++k) d_logits[k] = d_h_res[k];
  }
};

}  // namespace mhc
