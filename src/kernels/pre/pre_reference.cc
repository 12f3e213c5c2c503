#include "kernels/pre/pre_reference.h"

#include "base/fpenv.h"

namespace mhc {

void pre_reference(const PreArgs& args, const Executor& executor) {
  const FloatingPointPolicy policy;
  const int64_t tokens = args.x.shape[0];
  const Dims all{tokens, args.x.shape[1], args.x.shape[2]};
  if (tokens == 0) return;
  const int64_t n = all.streams;
  const int64_t m = gate_layout(args.spec, args.kind).coefficients();
  const bool gated = args.params.alpha.present();

  const std::vector<double> alpha = reference::load_all(args.params.alpha);
  const std::vector<double> bias = reference::load_all(args.params.bias);
  std::vector<double> phi_eff = reference::load_all(args.params.phi);
  {
    const std::vector<double> norm_weight = reference::load_all(args.params.norm_weight);
    reference::fold_norm_weight<double>(args.spec, m, all.flat(), phi_eff.data(),
                                        norm_weight.empty() ? nullptr : norm_weight.data(),
                                        phi_eff.data());
  }

  const int64_t per_token = all.flat() + all.embedding + 2 * m + 2 + 2 * n + n * n;
  reference::WorkerScratch scratch(executor, std::min(tokens, reference::kTaskTokens) * per_token);
  std::vector<reference::Gates<double>> gates(
      static_cast<size_t>(executor.workers()),
      reference::Gates<double>(args.spec, args.kind, all.flat()));
  executor.run(ceil_div(tokens, reference::kTaskTokens), [&](int64_t task, int32_t worker) {
    const int64_t begin = task * reference::kTaskTokens;
    const int64_t end = std::min(tokens, begin + reference::kTaskTokens);
    const int64_t count = end - begin;
    reference::Pieces pieces(scratch.of(worker));
    double* x = pieces.take(count * all.flat());
    reference::load_rows(args.x, begin, end, x);
    reference::PreArrays<double> a;
    a.x = x;
    a.phi_eff = phi_eff.data();
    a.alpha = alpha.data();
    a.bias = bias.data();
    a.q = pieces.take(count * m);
    a.sum_squares = pieces.take(count);
    a.z = pieces.take_if(gated, count * m);
    a.inv_rms = pieces.take(count);
    a.h_pre = pieces.take(count * n);
    a.h_post = pieces.take(count * n);
    a.h_res = pieces.take(count * n * n);
    a.layer_input = pieces.take_if(args.layer_input.present(), count * all.embedding);
    reference::pre(args.spec, args.x.dtype, {count, n, all.embedding},
                   &gates[static_cast<size_t>(worker)], a);
    const auto store_if_present = [&](const double* values, const Tensor& tensor) {
      if (tensor.present()) reference::store_rows(values, tensor, begin, end);
    };
    store_if_present(a.layer_input, args.layer_input);
    store_if_present(a.z, args.z);
    store_if_present(a.inv_rms, args.inv_rms);
    store_if_present(a.h_pre, args.h_pre);
    store_if_present(a.h_post, args.h_post);
    store_if_present(a.h_res, args.h_res);
    store_if_present(a.q, args.q);
    store_if_present(a.sum_squares, args.sum_squares);
  });
}

void pre_reference(const PreArgs& args) { pre_reference(args, serial_executor()); }

}  // namespace mhc
