#include "kernels/coefficients/coefficients.h"

#include <algorithm>

#include "base/counters.h"
#include "base/fpenv.h"
#include "kernels/coefficients/coefficients_plan.h"
#include "kernels/common/check_args.h"
#include "kernels/common/scratch.h"

namespace mhc {

// Best first; the ISA files define the rows. Nothing here is bf16, so AVX-512 with BF16 has no row
// of its own.
#if defined(MHC_HAVE_X86)
namespace avx512 {
extern const CoefficientsKernel kCoefficientsF32;
}
namespace avx2 {
extern const CoefficientsKernel kCoefficientsF32;
}
#endif
namespace scalar {
extern const CoefficientsKernel kCoefficientsF32;
}

std::span<const CoefficientsKernel> coefficients_kernels() {
  static const CoefficientsKernel kRows[] = {
#if defined(MHC_HAVE_X86)
      avx512::kCoefficientsF32,
      avx2::kCoefficientsF32,
#endif
      scalar::kCoefficientsF32,
  };
  return kRows;
}

namespace {

// Partial sums of d_bias and d_alpha are kept for this many tokens at a time.
constexpr int64_t kWaveTokens = 4096;
constexpr int64_t kTaskTokens = 64;  // a multiple of every kernel's lanes

struct CoefficientsWorkspace {
  float* gate_params;
  float* sums;
  double* totals;
  float* scratch;
  int64_t scratch_floats;
  size_t bytes;

  CoefficientsWorkspace(void* base, const CoefficientsKernel& kernel, const Spec& spec,
                        const GateLayout& gates, int64_t tokens, int32_t workers) {
    const int64_t m = gates.coefficients();
    ScratchCutter cut(base);
    gate_params = cut.take<float>(kMaxGroups + m);
    sums =
        cut.take<float>(ceil_div(std::min(tokens, kWaveTokens), kernel.lanes) * (m + kMaxGroups));
    totals = cut.take<double>(m + kMaxGroups);
    scratch_floats =
        round_up(kernel.lanes, 16) + round_up(kernel.lanes * m, 16) +
        round_up(gate_scratch_vectors(gates, spec.manifold, spec.manifold_options) * kernel.lanes,
                 16);
    scratch = cut.take<float>(scratch_floats * workers);
    bytes = cut.bytes();
  }
};

}  // namespace

size_t coefficients_workspace_bytes(const Spec& spec, GateKind kind, int64_t tokens,
                                    const Runtime& runtime) {
  if (tokens == 0) return 0;
  const CoefficientsKernel& kernel = choose_kernel(coefficients_kernels(), DType::kF32, runtime);
  return CoefficientsWorkspace(nullptr, kernel, spec, gate_layout(spec, kind), tokens,
                               runtime.executor.workers())
      .bytes;
}

Status coefficients_from_partials(const CoefficientsArgs& args, const Runtime& runtime) {
  MHC_RETURN_IF_ERROR(check(args));
  const int64_t tokens = args.q.shape[0];
  if (tokens == 0) return {};
  if (args.q.dtype == DType::kF64) {
    coefficients_reference(args);
    count_call("coefficients_reference_f64");
    return {};
  }
  const FloatingPointPolicy policy;  // of what this thread does itself
  const CoefficientsKernel& kernel = choose_kernel(coefficients_kernels(), DType::kF32, runtime);
  const CoefficientsWorkspace space(args.workspace.data, kernel, args.spec,
                                    gate_layout(args.spec, args.kind), tokens,
                                    runtime.executor.workers());
  MHC_RETURN_IF_ERROR(check_workspace("coefficients_from_partials", args.workspace, space.bytes));
  const GateParams gates = make_gate_params(args.spec, args.kind, args.embedding_total, args.alpha,
                                            args.bias, space.gate_params);
  runtime.executor.run(ceil_div(tokens, kTaskTokens), [&](int64_t task, int32_t worker) {
    kernel.forward(args, gates, task * kTaskTokens, std::min(tokens, (task + 1) * kTaskTokens),
                   space.scratch + worker * space.scratch_floats);
  });
  count_call(kernel.name);
  return {};
}

Status coefficients_from_partials_backward(const CoefficientsBackwardArgs& args,
                                           const Runtime& runtime) {
  MHC_RETURN_IF_ERROR(check(args));
  const int64_t tokens = args.z.shape[0];
  if (tokens == 0) {
    put_no_gradient(args.d_alpha, args.accumulate);
    put_no_gradient(args.d_bias, args.accumulate);
    return {};
  }
  if (args.z.dtype == DType::kF64) {
    coefficients_backward_reference(args);
    count_call("coefficients_reference_f64");
    return {};
  }
  const FloatingPointPolicy policy;  // of what this thread does itself
  const CoefficientsKernel& kernel = choose_kernel(coefficients_kernels(), DType::kF32, runtime);
  const GateLayout layout = gate_layout(args.spec, args.kind);
  const CoefficientsWorkspace space(args.workspace.data, kernel, args.spec, layout, tokens,
                                    runtime.executor.workers());
  MHC_RETURN_IF_ERROR(
      check_workspace("coefficients_from_partials_backward", args.workspace, space.bytes));
  const GateParams gates = make_gate_params(args.spec, args.kind, args.embedding_total, args.alpha,
                                            args.bias, space.gate_params);
  const int64_t width = gates.coefficients + kMaxGroups;
  const bool need_sums = args.d_alpha.present() || args.d_bias.present();
  for (int64_t c = 0; c < width; ++c) space.totals[c] = 0;
  for (int64_t wave = 0; wave < tokens; wave += kWaveTokens) {
    const int64_t count = std::min(kWaveTokens, tokens - wave);
    runtime.executor.run(ceil_div(count, kTaskTokens), [&](int64_t task, int32_t worker) {
      const int64_t begin = wave + task * kTaskTokens;
      float* sums = need_sums ? space.sums + (begin - wave) / kernel.lanes * width : nullptr;
      kernel.backward(args, gates, begin, std::min(begin + kTaskTokens, wave + count), sums,
                      space.scratch + worker * space.scratch_floats);
    });
    for (int64_t row = 0; need_sums && row < ceil_div(count, kernel.lanes); ++row) {
      for (int64_t c = 0; c < width; ++c)
        space.totals[c] += static_cast<double>(space.sums[row * width + c]);
    }
  }
  put_sums(args.d_bias, args.accumulate, gates.coefficients, space.totals);
  put_sums(args.d_alpha, args.accumulate, layout.groups(), space.totals + gates.coefficients);
  count_call(kernel.name);
  return {};
}

}  // namespace mhc
