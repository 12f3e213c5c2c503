#include "kernels/common/check_args.h"
#include "kernels/spread/spread.h"

namespace mhc {

Status check(const SpreadArgs& args) {
  Checker c(args.operation);
  if (!c.range("streams", args.streams, 1, kMaxStreams) ||
      !c.input("source", args.source, {free_extent("T", 0), free_extent("D", 1)}, kAnyFloat,
               Layout::kRows)) {
    return c.status();
  }
  const Extent t{"T", args.source.shape[0]};
  const Extent n{"n", args.streams};
  const Extent d{"D", args.source.shape[1]};
  const DTypes activation = only(args.source.dtype);
  const DTypes gate = only(gate_type(args.source.dtype));
  check_mix_options(&c, args.weights_precision, args.scale);
  c.optional_input("weights", args.weights, {t, n}, gate);
  c.optional_input("x", args.x, {t, n, d}, activation, Layout::kRows);
  c.optional_output("out", args.out, {t, n, d}, activation, Layout::kRows);
  c.optional_output("d_weights", args.d_weights, {t, n}, gate);
  c.needed("x", args.x, args.d_weights.present(), "d_weights is asked for");
  c.allow_alias("out", "x");
  return c.finish();
}

}  // namespace mhc
