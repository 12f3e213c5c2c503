#include "kernels/common/check_args.h"
#include "kernels/post/post.h"

namespace mhc {

Status check(const PostArgs& args) {
  MHC_RETURN_IF_ERROR(check_spec(args.operation, args.spec, GateKind::kSite));
  Checker c(args.operation);
  const Extent n{"n", args.spec.streams};
  if (!c.input("x", args.x, {free_extent("T", 0), n, free_extent("D", 1)}, kAnyFloat,
               Layout::kRows)) {
    return c.status();
  }
  const Extent t{"T", args.x.shape[0]};
  const Extent d{"D", args.x.shape[2]};
  const DTypes activation = only(args.x.dtype);
  const DTypes gate = only(gate_type(args.x.dtype));
  c.input("layer_output", args.layer_output, {t, d}, activation, Layout::kRows);
  c.input("h_post", args.h_post, {t, n}, gate);
  c.input("h_res", args.h_res, {t, n, n}, gate);
  c.output("x_next", args.x_next, {t, n, d}, activation, Layout::kRows);
  c.allow_alias("x_next", "x");
  return c.finish();
}

}  // namespace mhc
