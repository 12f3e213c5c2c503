#include "kernels/post/post_reference.h"

#include "base/fpenv.h"

namespace mhc {

void post_reference(const PostArgs& args, const Executor& executor) {
  const FloatingPointPolicy policy;
  const int64_t tokens = args.x.shape[0];
  const int64_t n = args.x.shape[1];
  const int64_t embedding = args.x.shape[2];
  if (tokens == 0) return;
  const int64_t per_token = n * embedding * 2 + embedding + n + n * n;
  reference::WorkerScratch scratch(executor, std::min(tokens, reference::kTaskTokens) * per_token);
  executor.run(ceil_div(tokens, reference::kTaskTokens), [&](int64_t task, int32_t worker) {
    const int64_t begin = task * reference::kTaskTokens;
    const int64_t end = std::min(tokens, begin + reference::kTaskTokens);
    const int64_t count = end - begin;
    reference::Pieces pieces(scratch.of(worker));
    double* x = pieces.take(count * n * embedding);
    double* layer_output = pieces.take(count * embedding);
    double* h_post = pieces.take(count * n);
    double* h_res = pieces.take(count * n * n);
    double* x_next = pieces.take(count * n * embedding);
    reference::load_rows(args.x, begin, end, x);
    reference::load_rows(args.layer_output, begin, end, layer_output);
    reference::load_rows(args.h_post, begin, end, h_post);
    reference::load_rows(args.h_res, begin, end, h_res);
    reference::post<double>(args.spec, args.x.dtype, {count, n, embedding},
                            {x, layer_output, h_post, h_res, x_next});
    reference::store_rows(x_next, args.x_next, begin, end);
  });
}

void post_reference(const PostArgs& args) { post_reference(args, serial_executor()); }

}  // namespace mhc
