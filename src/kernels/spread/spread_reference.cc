#include "kernels/spread/spread_reference.h"

#include "base/fpenv.h"

namespace mhc {

void spread_reference(const SpreadArgs& args, const Executor& executor) {
  const FloatingPointPolicy policy;
  const int64_t tokens = args.source.shape[0];
  const int64_t n = args.streams;
  const int64_t embedding = args.source.shape[1];
  if (tokens == 0) return;
  const int64_t per_token = (2 * n + 1) * embedding + 2 * n;
  reference::WorkerScratch scratch(executor, std::min(tokens, reference::kTaskTokens) * per_token);
  executor.run(ceil_div(tokens, reference::kTaskTokens), [&](int64_t task, int32_t worker) {
    const int64_t begin = task * reference::kTaskTokens;
    const int64_t end = std::min(tokens, begin + reference::kTaskTokens);
    const int64_t count = end - begin;
    reference::Pieces pieces(scratch.of(worker));
    double* source = pieces.take(count * embedding);
    double* weights = pieces.take_if(args.weights.present() && args.out.present(), count * n);
    double* x = pieces.take_if(args.d_weights.present(), count * n * embedding);
    double* out = pieces.take_if(args.out.present(), count * n * embedding);
    double* d_weights = pieces.take_if(args.d_weights.present(), count * n);
    reference::load_rows(args.source, begin, end, source);
    if (weights != nullptr) reference::load_rows(args.weights, begin, end, weights);
    if (x != nullptr) reference::load_rows(args.x, begin, end, x);
    reference::spread<double>(args.weights_precision, args.scale, args.source.dtype,
                              {count, n, embedding}, {source, weights, x, out, d_weights});
    if (out != nullptr) reference::store_rows(out, args.out, begin, end);
    if (d_weights != nullptr) reference::store_rows(d_weights, args.d_weights, begin, end);
  });
}

void spread_reference(const SpreadArgs& args) { spread_reference(args, serial_executor()); }

}  // namespace mhc
