#include "kernels/common/gates.h"

#include <cstring>

namespace mhc {

GateParams make_gate_params(const Spec& spec, GateKind kind, int64_t embedding_total,
                            const Tensor& alpha, const Tensor& bias, float* storage) {
  GateParams p;
  p.layout = gate_layout(spec, kind);
  p.coefficients = p.layout.coefficients();
  p.manifold = spec.manifold;
  p.options = spec.manifold_options;
  p.transposed = spec.matrix_order == MatrixOrder::kOutputInput;
  p.norm_outside = spec.norm_form == NormForm::kOutside;
  p.round_gradient = spec.gradient_precision == Precision::kBFloat16;
  p.norm_eps = static_cast<float>(spec.norm_eps);
  p.pre_eps = static_cast<float>(spec.pre_eps);
  p.post_mult = static_cast<float>(spec.post_mult);
  p.inv_k = static_cast<float>(1.0 / static_cast<double>(spec.streams * embedding_total));
  if (alpha.present()) {
    for (int64_t g = 0; g < p.layout.groups(); ++g) storage[g] = static_cast<float>(alpha.load(g));
    p.alpha = storage;
  }
  if (bias.present()) {
    for (int64_t c = 0; c < p.coefficients; ++c) {
      storage[kMaxGroups + c] = static_cast<float>(bias.load(c));
    }
    p.bias = storage + kMaxGroups;
  }
  return p;
}

void put_no_gradient(const Tensor& gradient, bool accumulate) {
  if (!gradient.present() || accumulate) return;
  std::memset(gradient.data, 0, static_cast<size_t>(gradient.elements() * size_of(gradient.dtype)));
}

void put_sums(const Tensor& gradient, bool accumulate, int64_t count, const double* totals) {
  if (!gradient.present()) return;
  for (int64_t c = 0; c < count; ++c) {
    gradient.store(accumulate ? gradient.load(c) + totals[c] : totals[c], c);
  }
}

int64_t gate_scratch_vectors(const GateLayout& layout, int32_t manifold,
                             const ManifoldOptions& options) {
  const int64_t m = layout.coefficients();
  const int64_t n = layout.streams;
  const ManifoldInfo* info = find_manifold(manifold);
  const int64_t own = layout.post == 0 || info == nullptr ? 0 : info->scratch_size(n, options);
  return 3 * m + 2 * n * n + own;
}

}  // namespace mhc
