#include "kernels/collapse/collapse.h"
#include "kernels/common/check_args.h"

namespace mhc {

Status check(const CollapseArgs& args) {
  Checker c(args.operation);
  if (!c.input("x", args.x, {free_extent("T", 0), free_extent("n", 1), free_extent("D", 1)},
               kAnyFloat, Layout::kRows) ||
      !c.range("x", args.x.shape[1], 1, kMaxStreams, " streams")) {
    return c.status();
  }
  const Extent t{"T", args.x.shape[0]};
  const Extent n{"n", args.x.shape[1]};
  const Extent d{"D", args.x.shape[2]};
  check_mix_options(&c, args.weights_precision, args.scale);
  c.optional_input("weights", args.weights, {t, n}, only(gate_type(args.x.dtype)));
  c.output("out", args.out, {t, d}, only(args.x.dtype), Layout::kRows);
  return c.finish();
}

}  // namespace mhc
