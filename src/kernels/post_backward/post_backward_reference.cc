#include "kernels/post_backward/post_backward_reference.h"

#include "base/fpenv.h"

namespace mhc {

void post_backward_reference(const PostBackwardArgs& args, const Executor& executor) {
  const FloatingPointPolicy policy;
  const Tensor& g = args.d_x_next;
  const int64_t tokens = g.shape[0];
  const int64_t n = g.shape[1];
  const int64_t embedding = g.shape[2];
  if (tokens == 0) return;
  const bool need_layer_output = args.d_h_post.present();
  const bool need_h_post = args.d_layer_output.present();
  const bool need_x = args.d_h_res.present();
  const bool need_h_res = args.d_x.present();
  const int64_t per_token = 3 * n * embedding + 2 * embedding + 2 * n * (n + 1);
  reference::WorkerScratch scratch(executor, std::min(tokens, reference::kTaskTokens) * per_token);
  executor.run(ceil_div(tokens, reference::kTaskTokens), [&](int64_t task, int32_t worker) {
    const int64_t begin = task * reference::kTaskTokens;
    const int64_t end = std::min(tokens, begin + reference::kTaskTokens);
    const int64_t count = end - begin;
    reference::Pieces pieces(scratch.of(worker));
    const auto load_if = [&](bool needed, const Tensor& tensor, int64_t size) -> const double* {
      if (!needed) return nullptr;
      double* out = pieces.take(count * size);
      reference::load_rows(tensor, begin, end, out);
      return out;
    };
    reference::PostBackwardArrays<double> a;
    a.d_x_next = load_if(true, g, n * embedding);
    a.x = load_if(need_x, args.x, n * embedding);
    a.layer_output = load_if(need_layer_output, args.layer_output, embedding);
    a.h_post = load_if(need_h_post, args.h_post, n);
    a.h_res = load_if(need_h_res, args.h_res, n * n);
    a.d_layer_output = pieces.take_if(need_h_post, count * embedding);
    a.d_h_post = pieces.take_if(need_layer_output, count * n);
    a.d_h_res = pieces.take_if(need_x, count * n * n);
    a.d_x = pieces.take_if(need_h_res, count * n * embedding);
    reference::post_backward(args.spec, g.dtype, {count, n, embedding}, a);
    if (need_h_post) reference::store_rows(a.d_layer_output, args.d_layer_output, begin, end);
    if (need_layer_output) reference::store_rows(a.d_h_post, args.d_h_post, begin, end);
    if (need_x) reference::store_rows(a.d_h_res, args.d_h_res, begin, end);
    if (need_h_res) reference::store_rows(a.d_x, args.d_x, begin, end);
  });
}

void post_backward_reference(const PostBackwardArgs& args) {
  post_backward_reference(args, serial_executor());
}

}  // namespace mhc
