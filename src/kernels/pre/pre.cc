#include "kernels/pre/pre.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/counters.h"
#include "base/fpenv.h"
#include "kernels/common/check_args.h"
#include "kernels/common/scratch.h"
#include "kernels/common/token_tasks.h"
#include "kernels/pre/pre_plan.h"
#include "kernels/pre/pre_reference.h"

namespace mhc {

// Best first; the ISA files define the rows.
#if defined(MHC_HAVE_X86)
namespace avx512bf16 {
extern const PreKernel kPreBF16;
}
namespace avx512 {
extern const PreKernel kPreBF16, kPreF16, kPreF32;
}
namespace avx2 {
extern const PreKernel kPreBF16, kPreF16, kPreF32;
}
#endif
namespace scalar {
extern const PreKernel kPreBF16, kPreF16, kPreF32;
}

std::span<const PreKernel> pre_kernels() {
  static const PreKernel kRows[] = {
#if defined(MHC_HAVE_X86)
      avx512bf16::kPreBF16, avx512::kPreBF16, avx512::kPreF16, avx512::kPreF32,
      avx2::kPreBF16,       avx2::kPreF16,    avx2::kPreF32,
#endif
      scalar::kPreBF16,     scalar::kPreF16,  scalar::kPreF32,
  };
  return kRows;
}

namespace {

// Up to this many tokens the features are split over tasks instead of the tokens.
constexpr int64_t kMaxSplitTokens = 32;
// x of one tile: it stays in L2 for the collapse, and a block of phi serves all of the tile.
constexpr int64_t kTileBytes = 768 << 10;
constexpr uint32_t kPackedMagic = 0x6d686370;  // "mhcp"

// What a caller's packed phi begins with: it fits one kernel and one shape.
struct PackedHeader {
  uint32_t magic;
  int32_t isa;
  int64_t phi_precision;
  int64_t columns, streams, embedding, unit, parts;
};
constexpr int64_t kHeaderWords = 64 / 4;
static_assert(sizeof(PackedHeader) <= 64);

PackedPhiLayout layout_of(const PreKernel& kernel, const Spec& spec, const GateLayout& gates) {
  return make_packed_phi_layout(gates.coefficients(), kernel.lanes, kernel.dot,
                                kernel.dot && spec.phi_precision == Precision::kFloat32);
}

PackedHeader header_of(const PreKernel& kernel, const Spec& spec, const PackedPhiLayout& layout,
                       const Dims& dims) {
  return {kPackedMagic,
          static_cast<int32_t>(kernel.isa),
          static_cast<int64_t>(spec.phi_precision),
          layout.columns,
          dims.streams,
          dims.embedding,
          layout.unit,
          layout.parts};
}

// What packed phi was made for, in an error message.
struct PackedText {
  char text[120];
  explicit PackedText(const PackedHeader* h) {
    if (h == nullptr || h->magic != kPackedMagic || h->isa < 0 || h->isa >= kIsas) {
      std::snprintf(text, sizeof(text), "nothing");
      return;
    }
    std::snprintf(text, sizeof(text), "%s with n=%lld, D=%lld, m=%lld, phi_precision %s",
                  name_of(static_cast<Isa>(h->isa)), static_cast<long long>(h->streams),
                  static_cast<long long>(h->embedding), static_cast<long long>(h->columns),
                  h->phi_precision == 0 ? "float32" : "bfloat16");
  }
};

// The words of a caller's packed phi, which has to begin with the wanted header.
Status open_packed_phi(const PreArgs& args, size_t needed, const PackedHeader& wanted,
                       const uint32_t** words) {
  ScratchCutter cut(const_cast<void*>(args.packed_phi));
  const auto* header = reinterpret_cast<const PackedHeader*>(cut.take<uint32_t>(kHeaderWords));
  *words = cut.take<uint32_t>(0);
  if (args.packed_phi_bytes < cut.bytes()) header = nullptr;
  if (header != nullptr && args.packed_phi_bytes >= needed &&
      std::memcmp(header, &wanted, sizeof(wanted)) == 0) {
    return {};
  }
  return Status::error(StatusCode::kInvalidArgument,
                       "%s: packed_phi: expected %zu bytes packed for %s, got %zu bytes packed for "
                       "%s",
                       args.operation, needed, PackedText(&wanted).text, args.packed_phi_bytes,
                       PackedText(header).text);
}

int64_t block_count(const Dims& dims) {
  return dims.streams * ceil_div(dims.embedding, kFeatureBlock);
}

bool splits_features(const Dims& dims, int32_t workers) {
  return dims.tokens <= kMaxSplitTokens && ceil_div(dims.tokens, 8) < workers &&
         block_count(dims) > 1;
}

Tuning tuning_of(const Dims& dims, DType dtype, const Runtime& runtime) {
  return runtime.tuning("pre", dims.tokens, dims.streams, dims.embedding,
                        static_cast<int32_t>(dtype));
}

int64_t tile_tokens(const Dims& dims, DType dtype, const Runtime& runtime) {
  const Tuning tuning = tuning_of(dims, dtype, runtime);
  if (tuning.pre_tile_tokens > 0) return std::clamp<int64_t>(tuning.pre_tile_tokens, 1, 256);
  const int64_t fitting = kTileBytes / (dims.flat() * size_of(dtype)) / 8 * 8;
  const int64_t shared = round_up(ceil_div(dims.tokens, runtime.executor.workers()), 8);
  return std::clamp<int64_t>(std::min(fitting, shared), 8, 64);
}

// The workspace of one call. Every piece but the partial sums is independent of T; those are of
// kMaxSplitTokens.
struct PreWorkspace {
  float* gate_params;
  uint32_t* packed;
  float* partials;
  float* scratch;
  int64_t scratch_floats;  // of one worker
  size_t bytes;

  PreWorkspace(void* base, const PreKernel& kernel, const Spec& spec, const GateLayout& gates,
               const Dims& dims, int64_t tile, int32_t workers) {
    const PackedPhiLayout layout = layout_of(kernel, spec, gates);
    ScratchCutter cut(base);
    gate_params = cut.take<float>(kMaxGroups + gates.coefficients());
    packed = cut.take<uint32_t>(layout.words(dims.streams, dims.embedding));
    partials = cut.take<float>(splits_features(dims, workers)
                                   ? block_count(dims) * dims.tokens * (layout.padded() + 1)
                                   : 0);
    scratch_floats =
        round_up(pre_scratch_floats(layout, gates, spec.manifold, spec.manifold_options, tile), 16);
    scratch = cut.take<float>(scratch_floats * workers);
    bytes = cut.bytes();
  }
};

void pack_all(const PreKernel& kernel, const Spec& spec, const Params& params,
              const PackedPhiLayout& layout, const Dims& dims, uint32_t* packed, float* scratch,
              int64_t scratch_floats, const Runtime& runtime) {
  const bool round = spec.phi_precision == Precision::kBFloat16;
  runtime.executor.run(block_count(dims), [&](int64_t block, int32_t worker) {
    kernel.pack(layout, params, round, dims, block, scratch + worker * scratch_floats, packed);
  });
}

void run_tokens(const PreKernel& kernel, const PrePlan& plan, float* scratch,
                int64_t scratch_floats, const Runtime& runtime) {
  // A task is a whole number of tiles; three tasks per worker even out what the machine does
  // besides.
  const int64_t tiles = ceil_div(plan.dims.tokens, plan.tile_tokens);
  const int64_t per_task =
      std::clamp<int64_t>(tiles / (3 * runtime.executor.workers()), 1, 4) * plan.tile_tokens;
  const auto run = plan.partials == nullptr ? kernel.tokens : kernel.finish;
  runtime.executor.run(ceil_div(plan.dims.tokens, per_task), [&](int64_t task, int32_t worker) {
    run(plan, task * per_task, std::min(plan.dims.tokens, (task + 1) * per_task),
        scratch + worker * scratch_floats);
  });
}

}  // namespace

int64_t pre_scratch_floats(const PackedPhiLayout& layout, const GateLayout& gates, int32_t manifold,
                           const ManifoldOptions& options, int64_t tile_tokens) {
  constexpr int64_t kStaged = 8 * (kFeatureBlock + 16);
  const int64_t tile = kStaged + round_up(tile_tokens * layout.padded(), 16) +
                       round_up(tile_tokens, 16) + round_up(tile_tokens * gates.streams, 16) +
                       gate_scratch_vectors(gates, manifold, options) * layout.lanes;
  return std::max(tile, kPackScratchFloats);
}

size_t pre_workspace_bytes(const Spec& spec, GateKind kind, const Dims& dims, DType activation,
                           const Runtime& runtime) {
  if (activation == DType::kF64 || dims.tokens == 0) return 0;
  const PreKernel& kernel = choose_kernel(pre_kernels(), activation, runtime);
  return PreWorkspace(nullptr, kernel, spec, gate_layout(spec, kind), dims,
                      tile_tokens(dims, activation, runtime), runtime.executor.workers())
      .bytes;
}

size_t packed_phi_bytes(const Spec& spec, GateKind kind, int64_t embedding, DType activation,
                        const Runtime& runtime) {
  if (activation == DType::kF64) return 0;
  const PreKernel& kernel = choose_kernel(pre_kernels(), activation, runtime);
  const PackedPhiLayout layout = layout_of(kernel, spec, gate_layout(spec, kind));
  // Header, words, and room to align them.
  return static_cast<size_t>(4 * (kHeaderWords + layout.words(spec.streams, embedding))) + 64;
}

Status pack_phi(const Spec& spec, GateKind kind, const Params& params, int64_t embedding,
                DType activation, void* packed, size_t packed_bytes, const Runtime& runtime) {
  MHC_RETURN_IF_ERROR(
      check_pack_phi(spec, kind, params, embedding, activation, packed, packed_bytes, runtime));
  if (activation == DType::kF64) return {};
  const PreKernel& kernel = choose_kernel(pre_kernels(), activation, runtime);
  const GateLayout gates = gate_layout(spec, kind);
  const PackedPhiLayout layout = layout_of(kernel, spec, gates);
  const Dims dims{0, spec.streams, embedding};
  ScratchCutter cut(packed);
  *reinterpret_cast<PackedHeader*>(cut.take<uint32_t>(kHeaderWords)) =
      header_of(kernel, spec, layout, dims);
  uint32_t* words = cut.take<uint32_t>(layout.words(spec.streams, embedding));
  alignas(
      64) float scratch[kPackScratchFloats];  // there is no workspace here; the caller packs alone
  Runtime serial = runtime;
  serial.executor = serial_executor();
  pack_all(kernel, spec, params, layout, dims, words, scratch, 0, serial);
  return {};
}

Status pre(const PreArgs& args, const Runtime& runtime) {
  MHC_RETURN_IF_ERROR(check(args));
  const Dims dims{args.x.shape[0], args.x.shape[1], args.x.shape[2]};
  if (dims.tokens == 0) return {};
  if (args.x.dtype == DType::kF64) {
    pre_reference(args, runtime.executor);
    count_call("pre_reference_f64");
    return {};
  }
  const FloatingPointPolicy policy;  // of what this thread does itself
  const PreKernel& kernel = choose_kernel(pre_kernels(), args.x.dtype, runtime);
  const GateLayout gates = gate_layout(args.spec, args.kind);
  const int32_t workers = runtime.executor.workers();

  PrePlan plan;
  plan.args = &args;
  plan.dims = dims;
  plan.layout = layout_of(kernel, args.spec, gates);
  plan.tile_tokens = tile_tokens(dims, args.x.dtype, runtime);
  plan.blocks = block_count(dims);
  plan.stream = is_streamed(static_cast<double>(dims.tokens * dims.embedding) *
                                static_cast<double>(size_of(args.x.dtype)),
                            tuning_of(dims, args.x.dtype, runtime));
  const PreWorkspace space(args.workspace.data, kernel, args.spec, gates, dims, plan.tile_tokens,
                           workers);
  MHC_RETURN_IF_ERROR(check_workspace(args.operation, args.workspace, space.bytes));
  plan.gates = make_gate_params(args.spec, args.kind, dims.embedding, args.params.alpha,
                                args.params.bias, space.gate_params);
  if (args.packed_phi != nullptr) {
    MHC_RETURN_IF_ERROR(open_packed_phi(
        args, packed_phi_bytes(args.spec, args.kind, dims.embedding, args.x.dtype, runtime),
        header_of(kernel, args.spec, plan.layout, dims), &plan.phi));
  } else {
    pack_all(kernel, args.spec, args.params, plan.layout, dims, space.packed, space.scratch,
             space.scratch_floats, runtime);
    plan.phi = space.packed;
  }

  if (splits_features(dims, workers)) {
    plan.partials = space.partials;
    runtime.executor.run(plan.blocks, [&](int64_t block, int32_t worker) {
      kernel.partials(plan, block, space.scratch + worker * space.scratch_floats);
    });
  }
  run_tokens(kernel, plan, space.scratch, space.scratch_floats, runtime);
  count_call(kernel.name);
  return {};
}

Cost pre_cost(const Spec& spec, GateKind kind, const Dims& dims, DType activation, Isa isa) {
  const double t = static_cast<double>(dims.tokens);
  const double k = static_cast<double>(dims.flat());
  const double m = static_cast<double>(gate_layout(spec, kind).coefficients());
  const double size = static_cast<double>(size_of(activation));
  Cost cost;
  cost.bytes_read = t * k * size;
  cost.bytes_written = t * (static_cast<double>(dims.embedding) * size + 4 * (m + 1));
  const bool dot = isa == Isa::kAvx512Bf16 && activation == DType::kBF16;
  const double projection = 2 * t * k * m;
  const double rest = 4 * t * k;  // sum of squares and collapse
  cost.flops_bf16_dot = dot ? projection * (spec.phi_precision == Precision::kFloat32 ? 2 : 1) : 0;
  cost.flops_f32 = rest + (dot ? 0 : projection);
  cost.transcendentals = t * m;
  return cost;
}

}  // namespace mhc
