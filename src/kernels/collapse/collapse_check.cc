#include <cstring>

#include "kernels/collapse/collapse.h"
#include "kernels/common/check_args.h"

namespace mhc {
namespace {

// The arguments' names in the operations that are a collapse.
struct Names {
  const char* operation;
  const char* x;
  const char* weights;
  const char* out;
};
constexpr Names kNames[] = {
    {"apply_pre", "x", "h_pre", "layer_input"},
    {"reduce", "x", "weights", "out"},
    {"expand_backward", "d_x", "weights", "d_h"},
};

Names names_of(const char* operation) {
  for (const Names& names : kNames) {
    if (std::strcmp(names.operation, operation) == 0) return names;
  }
  return {operation, "x", "weights", "out"};
}

}  // namespace

Status check(const CollapseArgs& args) {
  const Names names = names_of(args.operation);
  Checker c(args.operation);
  if (!c.input(names.x, args.x, {free_extent("T", 0), free_extent("n", 1), free_extent("D", 1)},
               kAnyFloat, Layout::kRows) ||
      !c.range(names.x, args.x.shape[1], 1, kMaxStreams, " streams")) {
    return c.status();
  }
  const Extent t{"T", args.x.shape[0]};
  const Extent n{"n", args.x.shape[1]};
  const Extent d{"D", args.x.shape[2]};
  check_mix_options(&c, args.weights_precision, args.scale);
  c.optional_input(names.weights, args.weights, {t, n}, only(gate_type(args.x.dtype)));
  c.output(names.out, args.out, {t, d}, only(args.x.dtype), Layout::kRows);
  return c.finish();
}

}  // namespace mhc
