#include "kernels/coefficients/coefficients_reference.h"

#include "base/fpenv.h"

namespace mhc {
namespace {

// One token at a time: a token has a few hundred numbers here.
using Array = std::vector<double>;

Array array(int64_t size) { return Array(static_cast<size_t>(size)); }

void store_if_present(const Array& values, const Tensor& tensor, int64_t t) {
  if (tensor.present()) reference::store_rows(values.data(), tensor, t, t + 1);
}

}  // namespace

void coefficients_reference(const CoefficientsArgs& args) {
  const FloatingPointPolicy policy;
  const int64_t n = args.spec.streams;
  reference::Gates<double> gates(args.spec, args.kind, n * args.embedding_total);
  const int64_t m = gates.layout().coefficients();
  const Array alpha = reference::load_all(args.alpha);
  const Array bias = reference::load_all(args.bias);
  Array q = array(m), sum_squares = array(1), z = array(m), inv_rms = array(1);
  Array h_pre = array(n), h_post = array(n), h_res = array(n * n);
  for (int64_t t = 0; t < args.q.shape[0]; ++t) {
    reference::load_rows(args.q, t, t + 1, q.data());
    reference::load_rows(args.sum_squares, t, t + 1, sum_squares.data());
    reference::coefficients<double>(
        1, &gates,
        {q.data(), sum_squares.data(), alpha.data(), bias.data(), z.data(), inv_rms.data(),
         h_pre.data(), h_post.data(), h_res.data()});
    store_if_present(z, args.z, t);
    store_if_present(inv_rms, args.inv_rms, t);
    store_if_present(h_pre, args.h_pre, t);
    store_if_present(h_post, args.h_post, t);
    store_if_present(h_res, args.h_res, t);
  }
}

void coefficients_backward_reference(const CoefficientsBackwardArgs& args) {
  const FloatingPointPolicy policy;
  const int64_t n = args.spec.streams;
  reference::Gates<double> gates(args.spec, args.kind, n * args.embedding_total);
  const int64_t m = gates.layout().coefficients();
  const Array alpha = reference::load_all(args.alpha);
  const Array bias = reference::load_all(args.bias);
  Array z = array(m), inv_rms = array(1), sum_squares = array(1);
  Array d_h_pre = array(n), d_h_post = array(n), d_h_res = array(n * n);
  Array d_logit = array(m), d_q = array(m), d_sum_squares = array(1);
  Array d_alpha = array(gates.layout().groups()), d_bias = array(m);
  const auto load_if_present = [](const Tensor& tensor, int64_t t, Array* out) -> const double* {
    if (!tensor.present()) return nullptr;
    reference::load_rows(tensor, t, t + 1, out->data());
    return out->data();
  };
  for (int64_t t = 0; t < args.z.shape[0]; ++t) {
    reference::coefficients_backward<double>(
        1, &gates,
        {load_if_present(args.z, t, &z), load_if_present(args.inv_rms, t, &inv_rms),
         load_if_present(args.sum_squares, t, &sum_squares), alpha.data(), bias.data(),
         load_if_present(args.d_h_pre, t, &d_h_pre), load_if_present(args.d_h_post, t, &d_h_post),
         load_if_present(args.d_h_res, t, &d_h_res), d_logit.data(), d_q.data(),
         d_sum_squares.data(), d_alpha.data(), d_bias.data()});
    store_if_present(d_q, args.d_q, t);
    store_if_present(d_sum_squares, args.d_sum_squares, t);
  }
  if (args.d_alpha.present()) reference::store_all(d_alpha, args.d_alpha, args.accumulate);
  if (args.d_bias.present()) reference::store_all(d_bias, args.d_bias, args.accumulate);
}

}  // namespace mhc
