#include "verify/site_memory.h"

#include <cmath>

#include "verify/parallel.h"
#include "verify/random.h"

namespace mhc::verify {

void fill(const Tensor& t, uint64_t seed, double scale, double mean) {
  const int64_t rows = t.elements() == 0 ? 0 : t.shape[0];
  parallel_for(rows, 4.0 * static_cast<double>(t.elements()), [&](int64_t i, int32_t) {
    Random random(seed + static_cast<uint64_t>(i) * 0x632be59bd9b4e019u);
    const Tensor row = tokens_of(t, i, 1);
    visit_dtype(t.dtype, [&](auto tag) {
      using T = decltype(tag);
      for_each_index(row, [&](int64_t a, int64_t j, int64_t k) {
        const double stream = t.rank == 3 ? 0.6 + 0.3 * static_cast<double>(j % 5) : 1;
        *row.at<T>(a, j, k) = from_double<T>(mean + scale * stream * random.normal());
      });
    });
  });
}

SiteMemory::SiteMemory(const Spec& spec, const Dims& dims, DType dtype, DType param_dtype,
                       bool with_norm_weight, uint64_t seed)
    : layout(gate_layout(spec, GateKind::kSite)) {
  const int64_t t = dims.tokens, n = dims.streams, d = dims.embedding, m = layout.coefficients();
  const DType w = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const DType p = dtype == DType::kF64 ? DType::kF64 : param_dtype;
  for (Buffer* b : {&x, &d_x_next, &x_next, &d_x}) *b = Buffer(dtype, {t, n, d});
  for (Buffer* b : {&layer_output, &d_layer_input, &layer_input, &d_layer_output})
    *b = Buffer(dtype, {t, d});
  for (Buffer* b : {&h_post, &d_h_post}) *b = Buffer(w, {t, n});
  for (Buffer* b : {&h_res, &d_h_res}) *b = Buffer(w, {t, n, n});
  z = Buffer(w, {t, m});
  inv_rms = Buffer(w, {t});
  phi = Buffer(p, {m, n, d});
  alpha = Buffer(p, {3});
  bias = Buffer(p, {m});
  d_phi = Buffer(w, {m, n, d});
  d_alpha = Buffer(w, {3});
  d_bias = Buffer(w, {m});
  fill(x, seed + 1, 1, 0.05);
  fill(layer_output, seed + 2, 1, 0);
  fill(d_x_next, seed + 3, 1, 0);
  fill(d_layer_input, seed + 4, 1, 0);
  fill(phi, seed + 5, 1 / std::sqrt(static_cast<double>(n * d)), 0);
  fill(alpha, seed + 6, 0.1, 1);
  fill(bias, seed + 7, 0.5, 0);
  if (!with_norm_weight) return;
  norm_weight = Buffer(p, {n, d});
  d_norm_weight = Buffer(w, {n, d});
  fill(norm_weight, seed + 8, 0.2, 1);
}

PreArgs SiteMemory::pre_args(const Spec& spec) const {
  PreArgs a;
  a.spec = spec;
  a.x = x;
  a.params = params();
  a.layer_input = layer_input;
  a.z = z;
  a.inv_rms = inv_rms;
  a.h_post = h_post;
  a.h_res = h_res;
  return a;
}

PostArgs SiteMemory::post_args(const Spec& spec) const {
  PostArgs a;
  a.spec = spec;
  a.x = x;
  a.layer_output = layer_output;
  a.h_post = h_post;
  a.h_res = h_res;
  a.x_next = x_next;
  return a;
}

PostBackwardArgs SiteMemory::post_backward_args(const Spec& spec) const {
  PostBackwardArgs a;
  a.spec = spec;
  a.d_x_next = d_x_next;
  a.x = x;
  a.layer_output = layer_output;
  a.h_post = h_post;
  a.d_layer_output = d_layer_output;
  a.d_h_post = d_h_post;
  a.d_h_res = d_h_res;
  return a;
}

PreBackwardArgs SiteMemory::pre_backward_args(const Spec& spec) const {
  PreBackwardArgs a;
  a.spec = spec;
  a.x = x;
  a.params = params();
  a.z = z;
  a.inv_rms = inv_rms;
  a.d_layer_input = d_layer_input;
  a.d_h_post = d_h_post;
  a.d_h_res = d_h_res;
  a.d_x_next = d_x_next;
  a.d_x = d_x;
  a.d_phi = d_phi;
  a.d_alpha = d_alpha;
  a.d_bias = d_bias;
  a.d_norm_weight = d_norm_weight;
  return a;
}

}  // namespace mhc::verify
