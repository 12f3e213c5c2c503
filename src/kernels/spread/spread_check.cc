#include <cstring>

#include "kernels/common/check_args.h"
#include "kernels/spread/spread.h"

namespace mhc {
namespace {

// The arguments' names in the operations that are a spread.
struct Names {
  const char* operation;
  const char* source;
  const char* weights;
  const char* x;
  const char* out;
  const char* d_weights;
  const char* d_weights_reason;
};
constexpr Names kNames[] = {
    {"expand", "h", "weights", "x", "x", "d_weights", "d_weights is asked for"},
    {"reduce_backward", "d_out", "weights", "x", "d_x", "d_weights", "d_weights is asked for"},
    {"apply_pre_backward", "d_layer_input", "h_pre", "x", "d_x", "d_h_pre", "d_h_pre is asked for"},
};

Names names_of(const char* operation) {
  for (const Names& names : kNames) {
    if (std::strcmp(names.operation, operation) == 0) return names;
  }
  return {operation, "source", "weights", "x", "out", "d_weights", "d_weights is asked for"};
}

}  // namespace

Status check(const SpreadArgs& args) {
  const Names names = names_of(args.operation);
  Checker c(args.operation);
  if (!c.range("streams", args.streams, 1, kMaxStreams) ||
      !c.input(names.source, args.source, {free_extent("T", 0), free_extent("D", 1)}, kAnyFloat,
               Layout::kRows)) {
    return c.status();
  }
  const Extent t{"T", args.source.shape[0]};
  const Extent n{"n", args.streams};
  const Extent d{"D", args.source.shape[1]};
  const DTypes activation = only(args.source.dtype);
  const DTypes gate = only(gate_type(args.source.dtype));
  check_mix_options(&c, args.weights_precision, args.scale);
  c.optional_input(names.weights, args.weights, {t, n}, gate);
  c.optional_input(names.x, args.x, {t, n, d}, activation, Layout::kRows);
  c.optional_output(names.out, args.out, {t, n, d}, activation, Layout::kRows);
  c.optional_output(names.d_weights, args.d_weights, {t, n}, gate);
  c.needed(names.x, args.x, args.d_weights.present(), names.d_weights_reason);
  c.allow_alias(names.out, names.x);
  return c.finish();
}

}  // namespace mhc
