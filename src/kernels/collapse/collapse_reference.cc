#include "kernels/collapse/collapse_reference.h"

#include "base/fpenv.h"

namespace mhc {

void collapse_reference(const CollapseArgs& args, const Executor& executor) {
  const FloatingPointPolicy policy;
  const int64_t tokens = args.x.shape[0];
  const int64_t n = args.x.shape[1];
  const int64_t embedding = args.x.shape[2];
  if (tokens == 0) return;
  const int64_t per_token = (n + 1) * embedding + n;
  reference::WorkerScratch scratch(executor, std::min(tokens, reference::kTaskTokens) * per_token);
  executor.run(ceil_div(tokens, reference::kTaskTokens), [&](int64_t task, int32_t worker) {
    const int64_t begin = task * reference::kTaskTokens;
    const int64_t end = std::min(tokens, begin + reference::kTaskTokens);
    const int64_t count = end - begin;
    reference::Pieces pieces(scratch.of(worker));
    double* x = pieces.take(count * n * embedding);
    double* weights = pieces.take_if(args.weights.present(), count * n);
    double* out = pieces.take(count * embedding);
    reference::load_rows(args.x, begin, end, x);
    if (weights != nullptr) reference::load_rows(args.weights, begin, end, weights);
    reference::collapse<double>(args.weights_precision, args.scale, args.x.dtype,
                                {count, n, embedding}, {x, weights, out});
    reference::store_rows(out, args.out, begin, end);
  });
}

void collapse_reference(const CollapseArgs& args) { collapse_reference(args, serial_executor()); }

}  // namespace mhc
