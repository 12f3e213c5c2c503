// `mhc info`: version, machine, instruction sets, threads, allocator, kernels, manifolds.

#include "mhc/info.h"

#include <fmt/format.h>

#include <algorithm>

#include "layer/kernel_list.h"
#include "manifold/presets.h"
#include "mhc/allocator.h"
#include "mhc/options.h"
#include "mhc/version.h"

namespace mhc::tool {
namespace {

// What the default runtime would choose by.
Runtime default_choice(const Environment& environment) {
  Runtime runtime;
  runtime.ceiling = environment.ceiling;
  runtime.exact_isa = environment.ceiling_named;
  return runtime;
}

std::string reason(const Environment& environment, Isa best) {
  if (environment.ceiling < best) {
    return fmt::format("MHC_ISA={} is a ceiling; the processor has {}",
                       name_of(environment.ceiling), name_of(best));
  }
  if (environment.ceiling_named) {
    return fmt::format("MHC_ISA={}{}", name_of(environment.ceiling),
                       best == Isa::kAvx512Bf16 ? ", its bf16 dots included" : "");
  }
  return best == Isa::kAvx512Bf16 && !bf16_dot_is_fast()
             ? "the best of this processor, but products stay with f32 multiply-adds, which are "
               "faster here than bf16 dots"
             : "the best of this processor";
}

Json isa_part(const Environment& environment) {
  const Isa best = best_available_isa();
  Json part{{"chosen", name_of(std::min(best, environment.ceiling))},
            {"reason", reason(environment, best)},
            {"bf16_dot_is_fast", bf16_dot_is_fast()}};
  for (int32_t i = 0; i < kIsas; ++i) {
    const Isa isa = static_cast<Isa>(i);
    part["all"].push_back({{"name", name_of(isa)},
                           {"available", is_available(isa)},
                           {"meaning", description_of(isa)}});
    if (is_available(isa)) part["available"].push_back(name_of(isa));
  }
  return part;
}

Json threads_part(const Environment& environment, const Machine& machine) {
  const char* one_each = machine.recommended_threads < machine.cores
                             ? "as many as the container's processor time is worth"
                             : "one per core that this process may use";
  return {{"cores", machine.cores},
          {"recommended", machine.recommended_threads},
          {"used", default_threads(environment)},
          {"reason", environment.threads > 0 ? "MHC_NUM_THREADS" : one_each},
          {"executor", "own pool, the caller takes part"}};
}

std::vector<mhc::KernelRow> rows_of(const std::string& operation) {
  std::vector<mhc::KernelRow> rows;
  for (int32_t i = 0; i < kernel_count(); ++i) {
    if (kernel_at(i).operation == operation) rows.push_back(kernel_at(i));
  }
  return rows;
}

Json kernels_part(const Environment& environment) {
  const Runtime runtime = default_choice(environment);
  Json part = Json::array();
  for (int32_t i = 0; i < kernel_count(); ++i) {
    const mhc::KernelRow row = kernel_at(i);
    const auto rows = rows_of(row.operation);
    const bool chosen = choose_kernel(rows, row.dtype, runtime).name == row.name;
    part.push_back({{"operation", row.operation},
                    {"name", row.name},
                    {"isa", name_of(row.isa)},
                    {"dtype", name_of(row.dtype)},
                    {"available", is_available(row.isa)},
                    {"chosen", chosen}});
  }
  return part;
}

Json manifolds_part() {
  Json part = Json::array();
  for (int32_t i = 0; manifold_at(i) != nullptr; ++i) {
    const ManifoldInfo& m = *manifold_at(i);
    part.push_back({{"name", m.name},
                    {"max_streams", m.max_streams},
                    {"logits_at_4", m.logits(4)},
                    {"summary", m.summary}});
  }
  return part;
}

Json presets_part() {
  Json part = Json::array();
  for (int32_t i = 0; preset_at(i) != nullptr; ++i) part.push_back(preset_at(i)->name);
  return part;
}

}  // namespace

Json collect_info() {
  const Environment environment = read_environment();
  const Machine machine = this_machine();
  const Allocator allocator = try_allocator();
  Json info;
  info["version"] = MHC_VERSION_STRING;
  info["processor"] = machine.processor;
  info["machine"] = to_json(machine);
  info["machine"]["summary"] = describe(machine);
  info["isa"] = isa_part(environment);
  info["caches"] = info["machine"]["caches"];
  info["threads"] = threads_part(environment, machine);
  info["tuning"] = environment.tuning;
  info["allocator"] = to_json(allocator);
  info["allocator"]["summary"] = describe(allocator);
  info["kernels"] = kernels_part(environment);
  info["manifolds"] = manifolds_part();
  info["presets"] = presets_part();
  return info;
}

int run_info(bool json) {
  const Json info = collect_info();
  if (json) {
    fmt::print("{}\n", info.dump(2));
  } else {
    print_info(info);
  }
  return 0;
}

}  // namespace mhc::tool
