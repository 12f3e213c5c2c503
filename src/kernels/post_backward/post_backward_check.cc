#include "kernels/common/check_args.h"
#include "kernels/post_backward/post_backward.h"

namespace mhc {

Status check(const PostBackwardArgs& args) {
  MHC_RETURN_IF_ERROR(check_spec(args.operation, args.spec, GateKind::kSite));
  Checker c(args.operation);
  const Extent n{"n", args.spec.streams};
  const Tensor& g = args.d_x_next;
  if (!c.input("d_x_next", g, {free_extent("T", 0), n, free_extent("D", 1)}, kAnyFloat,
               Layout::kRows)) {
    return c.status();
  }
  const Extent t{"T", g.shape[0]};
  const Extent d{"D", g.shape[2]};
  const DTypes activation = only(g.dtype);
  const DTypes gate = only(gate_type(g.dtype));
  c.optional_input("x", args.x, {t, n, d}, activation, Layout::kRows);
  c.optional_input("layer_output", args.layer_output, {t, d}, activation, Layout::kRows);
  c.optional_input("h_post", args.h_post, {t, n}, gate);
  c.optional_input("h_res", args.h_res, {t, n, n}, gate);
  c.optional_output("d_layer_output", args.d_layer_output, {t, d}, activation, Layout::kRows);
  c.optional_output("d_h_post", args.d_h_post, {t, n}, gate);
  c.optional_output("d_h_res", args.d_h_res, {t, n, n}, gate);
  c.optional_output("d_x", args.d_x, {t, n, d}, activation, Layout::kRows);
  c.needed("x", args.x, args.d_h_res.present(), "d_h_res is asked for");
  c.needed("layer_output", args.layer_output, args.d_h_post.present(), "d_h_post is asked for");
  c.needed("h_post", args.h_post, args.d_layer_output.present(), "d_layer_output is asked for");
  c.needed("h_res", args.h_res, args.d_x.present(), "d_x is asked for");
  c.allow_alias("d_layer_output", "layer_output");
  c.allow_alias("d_x", "d_x_next");
  return c.finish();
}

}  // namespace mhc
