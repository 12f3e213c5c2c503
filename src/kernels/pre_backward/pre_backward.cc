#include "kernels/pre_backward/pre_backward.h"

#include <algorithm>

#include "base/counters.h"
#include "base/fpenv.h"
#include "kernels/common/check_args.h"
#include "kernels/common/scratch.h"
#include "kernels/common/token_tasks.h"
#include "kernels/pre_backward/pre_backward_plan.h"
#include "kernels/pre_backward/pre_backward_reference.h"

namespace mhc {

// Best first; the ISA files define the rows.
#if defined(MHC_HAVE_X86)
namespace avx512bf16 {
extern const PreBackwardKernel kPreBackwardBF16;
}
namespace avx512 {
extern const PreBackwardKernel kPreBackwardBF16, kPreBackwardF16, kPreBackwardF32;
}
namespace avx2 {
extern const PreBackwardKernel kPreBackwardBF16, kPreBackwardF16, kPreBackwardF32;
}
#endif
namespace scalar {
extern const PreBackwardKernel kPreBackwardBF16, kPreBackwardF16, kPreBackwardF32;
}

std::span<const PreBackwardKernel> pre_backward_kernels() {
  static const PreBackwardKernel kRows[] = {
#if defined(MHC_HAVE_X86)
      avx512bf16::kPreBackwardBF16, avx512::kPreBackwardBF16, avx512::kPreBackwardF16,
      avx512::kPreBackwardF32,      avx2::kPreBackwardBF16,   avx2::kPreBackwardF16,
      avx2::kPreBackwardF32,
#endif
      scalar::kPreBackwardBF16,     scalar::kPreBackwardF16,  scalar::kPreBackwardF32,
  };
  return kRows;
}

namespace {

constexpr int64_t kBuiltinWaveTokens = 256;  // or a block for every group of them
constexpr int64_t kMaxWaveTokens = 4096;
constexpr int64_t kBuiltinTaskFeatures = 128;

// With few features there are few panels to share out; token blocks then go to groups with
// accumulators of their own. A function of the shape alone: it decides the order of the sums.
int64_t group_count(const Dims& dims) {
  const int64_t chunks = ceil_div(dims.embedding, kBuiltinTaskFeatures);
  const int64_t blocks = ceil_div(dims.tokens, kTokenBlock);
  return std::clamp<int64_t>(ceil_div(16, chunks), 1, blocks);
}

Tuning tuning_of(const Dims& dims, DType dtype, const Runtime& runtime) {
  return runtime.tuning("pre_backward", dims.tokens, dims.streams, dims.embedding,
                        static_cast<int32_t>(dtype));
}

int64_t wave_tokens(const Dims& dims, const Tuning& tuning) {
  const int64_t wanted = tuning.backward_wave_tokens > 0
                             ? tuning.backward_wave_tokens
                             : std::max(kBuiltinWaveTokens, group_count(dims) * kTokenBlock);
  const int64_t wave =
      std::clamp<int64_t>(round_up(wanted, kTokenBlock), kTokenBlock, kMaxWaveTokens);
  return std::min(wave, round_up(dims.tokens, kTokenBlock));
}

// Panels of one task of the second phase: a token's lines of x, g and du are then read 256 bytes at
// a time. Fewer where x of that many panels would leave a cache of this size.
int64_t task_panels(const GateLayout& gates, const Tuning& tuning) {
  constexpr int64_t kCacheFloats = 1 << 17;
  const int64_t features =
      tuning.backward_panel_features > 0 ? tuning.backward_panel_features : kBuiltinTaskFeatures;
  const int64_t fitting = kCacheFloats / panel_own_floats(gates);
  return std::clamp<int64_t>(std::min(features / kPanel, fitting), 1, 64);
}

// The workspace of one call. phi, n * D * m floats, on the dot unit phi_pairs, as
// many, and the accumulators are its large pieces: n * D * m or at most 30 * n * 128 * m floats.
struct BackwardWorkspace {
  struct WaveRows {
    float* d_q;
    float* norm;
    float* h_pre;
    float* h_res;
    float* sums;
    uint32_t* coefficient_pairs;
    uint32_t* token_pairs;
  };
  float* gate_params;
  WaveRows rows[2];  // of the wave in its second phase, and of the next one
  double* totals;
  float* phi;
  uint32_t* phi_pairs;
  float* accumulators;
  float* scratch;
  int64_t scratch_floats;
  size_t bytes;

  BackwardWorkspace(void* base, const PreBackwardKernel& kernel, const Spec& spec,
                    const GateLayout& gates, const Dims& dims, const Tuning& tuning,
                    int32_t workers) {
    const int64_t wave = wave_tokens(dims, tuning);
    const int64_t n = dims.streams;
    const int64_t m = gates.coefficients();
    ScratchCutter cut(base);
    gate_params = cut.take<float>(kMaxGroups + m);
    const bool dot = kernel.has_dot && spec.gradient_precision == Precision::kBFloat16;
    for (WaveRows& r : rows) {
      r.d_q = cut.take<float>(wave * m);
      r.norm = cut.take<float>(wave);
      r.h_pre = cut.take<float>(wave * n);
      r.h_res = cut.take<float>(wave * n * n);
      r.sums = cut.take<float>(ceil_div(wave, kernel.lanes) * (m + kMaxGroups));
      r.coefficient_pairs = cut.take<uint32_t>(dot ? wave * ceil_div(m, 2) : 0);
      r.token_pairs = cut.take<uint32_t>(dot ? wave / 2 * m : 0);
    }
    totals = cut.take<double>(m + kMaxGroups);
    const int64_t panel_rows = ceil_div(dims.embedding, kPanel) * n;
    phi = cut.take<float>(panel_rows * m * kPanel);
    phi_pairs = cut.take<uint32_t>(dot ? panel_rows * 2 * ceil_div(m, 2) * kPanel : 0);
    accumulators = cut.take<float>(group_count(dims) * panel_rows * m * kPanel);
    scratch_floats =
        round_up(std::max(gate_scratch_floats(gates, spec, kernel.lanes),
                          panel_scratch_floats(gates, dot, task_panels(gates, tuning))),
                 16);
    scratch = cut.take<float>(scratch_floats * workers);
    bytes = cut.bytes();
  }
};

// Adds the wave's partial sums of d_bias and d_alpha in ascending order; in double, as there are
// few of them.
void add_sums(const PreBackwardPlan& plan, int64_t lanes, double* totals) {
  const int64_t width = plan.gates.coefficients + kMaxGroups;
  const int64_t rows = ceil_div(plan.wave_end - plan.wave_begin, lanes);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t c = 0; c < width; ++c)
      totals[c] += static_cast<double>(plan.sums[row * width + c]);
  }
}

constexpr int64_t kGateTokens = 16;  // of a task of the first phase; a multiple of kernels' lanes

// First phase of all of a wave.
void run_gates(const PreBackwardKernel& kernel, const PreBackwardPlan& plan,
               const BackwardWorkspace& space, const Runtime& runtime) {
  const int64_t tokens = plan.wave_end - plan.wave_begin;
  runtime.executor.run(ceil_div(tokens, kGateTokens), [&](int64_t task, int32_t worker) {
    const int64_t begin = plan.wave_begin + task * kGateTokens;
    kernel.gates(plan, begin, std::min(begin + kGateTokens, plan.wave_end),
                 space.scratch + worker * space.scratch_floats);
  });
}

// Second phase of a wave; each task then does its share of the next wave's first phase, which waits
// for memory while the second multiplies.
void run_panels(const PreBackwardKernel& kernel, const PreBackwardPlan& plan,
                const PreBackwardPlan& next, const BackwardWorkspace& space,
                int64_t panels_per_task, const Runtime& runtime) {
  const int64_t chunks = ceil_div(plan.panels(), panels_per_task);
  const int64_t tasks = chunks * plan.groups;
  const int64_t tiles = ceil_div(next.wave_end - next.wave_begin, kGateTokens);
  const auto tile_begin = [&](int64_t task) {
    return std::min(next.wave_begin + task * tiles / tasks * kGateTokens, next.wave_end);
  };
  runtime.executor.run(tasks, [&](int64_t index, int32_t worker) {
    float* scratch = space.scratch + worker * space.scratch_floats;
    PanelTask task;
    task.group = index / chunks;
    task.first = index % chunks * panels_per_task;
    task.last = std::min(task.first + panels_per_task, plan.panels());
    task.next_begin = tile_begin(index);
    task.next_end = tile_begin(index + 1);
    kernel.panels(plan, task, scratch);
    if (task.next_begin < task.next_end) {
      kernel.gates(next, task.next_begin, task.next_end, scratch);
    }
  });
}

// The plan of the wave that follows; empty behind the last one.
PreBackwardPlan wave_after(const PreBackwardPlan& plan, int64_t tokens,
                           const BackwardWorkspace::WaveRows& rows) {
  PreBackwardPlan next = plan;
  next.wave_begin = plan.wave_end;
  next.wave_end = std::min(plan.wave_end + tokens, plan.dims.tokens);
  next.d_q = rows.d_q;
  next.norm = rows.norm;
  next.h_pre = rows.h_pre;
  next.h_res = rows.h_res;
  next.sums = rows.sums;
  next.coefficient_pairs = rows.coefficient_pairs;
  next.token_pairs = rows.token_pairs;
  return next;
}

// Around the caches, when it is large and not written over g.
bool streams_d_x(const PreBackwardArgs& args, const Dims& dims, const Tuning& tuning) {
  if (!args.d_x.present()) return false;
  const bool in_place = args.d_x.data == args.d_x_next.data || args.d_x.data == args.d_x_post.data;
  const int64_t line = 64;
  const int64_t size = size_of(args.d_x.dtype);
  const bool aligned = reinterpret_cast<uintptr_t>(args.d_x.data) % line == 0 &&
                       (dims.tokens == 1 || args.d_x.stride[0] * size % line == 0) &&
                       (dims.streams == 1 || args.d_x.stride[1] * size % line == 0);
  const double bytes = static_cast<double>(dims.tokens * dims.flat() * size);
  return !in_place && aligned && is_streamed(bytes, tuning);
}

}  // namespace

int64_t gate_scratch_floats(const GateLayout& layout, const Spec& spec, int64_t lanes) {
  return lanes * kMaxStreams + round_up(lanes, 16) +
         gate_scratch_vectors(layout, spec.manifold, spec.manifold_options) * lanes;
}

int64_t panel_scratch_floats(const GateLayout& layout, bool dot, int64_t panels) {
  constexpr int64_t kMaxTileRows = 8;
  const int64_t shared = kPanel * (kMaxTileRows * layout.streams + (dot ? kTokenBlock / 2 : 0));
  return shared + panels * panel_own_floats(layout);
}

size_t pre_backward_workspace_bytes(const Spec& spec, GateKind kind, const Dims& dims,
                                    DType activation, const Runtime& runtime) {
  if (activation == DType::kF64 || dims.tokens == 0) return 0;
  const PreBackwardKernel& kernel = choose_kernel(pre_backward_kernels(), activation, runtime);
  return BackwardWorkspace(nullptr, kernel, spec, gate_layout(spec, kind), dims,
                           tuning_of(dims, activation, runtime), runtime.executor.workers())
      .bytes;
}

Status pre_backward(const PreBackwardArgs& args, const Runtime& runtime) {
  MHC_RETURN_IF_ERROR(check(args));
  const Dims dims{args.x.shape[0], args.x.shape[1], args.x.shape[2]};
  if (dims.tokens == 0) {
    for (const Tensor* gradient : {&args.d_phi, &args.d_alpha, &args.d_bias, &args.d_norm_weight}) {
      put_no_gradient(*gradient, args.accumulate);
    }
    return {};
  }
  if (args.x.dtype == DType::kF64) {
    pre_backward_reference(args, runtime.executor);
    count_call("pre_backward_reference_f64");
    return {};
  }
  const FloatingPointPolicy policy;  // of what this thread does itself
  const PreBackwardKernel& kernel = choose_kernel(pre_backward_kernels(), args.x.dtype, runtime);
  const GateLayout gates = gate_layout(args.spec, args.kind);
  const Tuning tuning = tuning_of(dims, args.x.dtype, runtime);
  const int64_t wave = wave_tokens(dims, tuning);
  const BackwardWorkspace space(args.workspace.data, kernel, args.spec, gates, dims, tuning,
                                runtime.executor.workers());
  MHC_RETURN_IF_ERROR(check_workspace(args.operation, args.workspace, space.bytes));

  PreBackwardPlan plan;
  plan.args = &args;
  plan.dims = dims;
  plan.gates = make_gate_params(args.spec, args.kind, dims.embedding, args.params.alpha,
                                args.params.bias, space.gate_params);
  plan.need_d_phi = args.d_phi.present() || args.d_norm_weight.present();
  plan.need_sums = args.d_alpha.present() || args.d_bias.present();
  plan.stream = streams_d_x(args, dims, tuning);
  plan.groups = group_count(dims);
  plan.dot = kernel.has_dot && args.spec.gradient_precision == Precision::kBFloat16 &&
             (runtime.exact_isa || bf16_dot_is_fast());
  plan.phi = space.phi;
  plan.phi_pairs = space.phi_pairs;
  plan.accumulators = space.accumulators;

  const int64_t width = plan.gates.coefficients + kMaxGroups;
  for (int64_t c = 0; c < width; ++c) space.totals[c] = 0;
  if (args.d_x.present()) {
    runtime.executor.run(plan.panels(), [&](int64_t panel, int32_t) { kernel.pack(plan, panel); });
  }
  const int64_t panels = task_panels(gates, tuning);
  const bool second = args.d_x.present() || plan.need_d_phi;
  plan = wave_after(plan, wave, space.rows[0]);
  run_gates(kernel, plan, space, runtime);
  for (int64_t number = 1; plan.wave_begin < dims.tokens; ++number) {
    if (plan.need_sums) add_sums(plan, kernel.lanes, space.totals);
    const PreBackwardPlan next = wave_after(plan, wave, space.rows[number % 2]);
    if (second) {
      run_panels(kernel, plan, next, space, panels, runtime);
    } else {
      run_gates(kernel, next, space, runtime);
    }
    plan = next;
  }
  put_sums(args.d_bias, args.accumulate, plan.gates.coefficients, space.totals);
  put_sums(args.d_alpha, args.accumulate, gates.groups(), space.totals + plan.gates.coefficients);
  if (plan.need_d_phi) {
    runtime.executor.run(plan.panels(), [&](int64_t panel, int32_t worker) {
      kernel.reduce(plan, panel, space.scratch + worker * space.scratch_floats);
    });
  }
  count_call(kernel.name);
  return {};
}

Cost pre_backward_cost(const Spec& spec, GateKind kind, const Dims& dims, DType activation,
                       Isa isa) {
  const double t = static_cast<double>(dims.tokens);
  const double k = static_cast<double>(dims.flat());
  const double n = static_cast<double>(dims.streams);
  const double m = static_cast<double>(gate_layout(spec, kind).coefficients());
  const double size = static_cast<double>(size_of(activation));
  Cost cost;
  cost.bytes_read =
      t * (size * (2 * k + static_cast<double>(dims.embedding)) + 4 * (m + 1 + n + n * n));
  cost.bytes_written = t * k * size;
  // Per feature and stream: d_x and d_phi through phi 2 m each, mix 2 n, du, norm and d_h_pre 2
  // each.
  const bool dot = isa == Isa::kAvx512Bf16 && spec.gradient_precision == Precision::kBFloat16;
  const double parts = spec.phi_precision == Precision::kFloat32 ? 2 : 1;
  cost.flops_bf16_dot = dot ? t * k * m * 2 * (1 + parts) : 0;
  cost.flops_f32 = t * k * ((dot ? 0 : 4 * m) + 2 * n + 6);
  cost.transcendentals = t * m;
  return cost;
}

}  // namespace mhc
