// `mhc info`: version, processor, instruction sets, caches, threads, allocator, kernels, manifolds.

#include <fmt/format.h>
#include <malloc.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "base/isa.h"
#include "base/processors.h"
#include "layer/kernel_list.h"
#include "manifold/presets.h"
#include "mhc/options.h"
#include "mhc/version.h"

namespace mhc::tool {
namespace {

using Json = nlohmann::ordered_json;

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Json isa_part(const Environment& environment) {
  Json part;
  const Isa best = best_available_isa();
  const Isa chosen = std::min(best, environment.ceiling);
  part["chosen"] = name_of(chosen);
  part["why"] = environment.ceiling_named && environment.ceiling < best
                    ? fmt::format("MHC_ISA={} is a ceiling; the processor has {}",
                                  name_of(environment.ceiling), name_of(best))
                    : "the best that this processor has";
  for (int32_t i = 0; i < kIsas; ++i) {
    const Isa isa = static_cast<Isa>(i);
    part["all"].push_back({{"name", name_of(isa)},
                           {"available", is_available(isa)},
                           {"meaning", description_of(isa)}});
  }
  part["bf16_dot_is_fast"] = bf16_dot_is_fast();
  return part;
}

// Level, kind and bytes of each cache of the first processor.
Json caches_part() {
  Json part = Json::array();
  for (int32_t i = 0; i < 8; ++i) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", i);
    const std::string size = first_line(folder + "size"), kind = first_line(folder + "type");
    if (size.empty() || kind == "Instruction") continue;
    part.push_back({{"level", std::atoi(first_line(folder + "level").c_str())},
                    {"size", size},
                    {"shared_by", first_line(folder + "shared_cpu_list")}});
  }
  return part;
}

Json threads_part(const Environment& environment) {
  const Processors p = usable_processors();
  return {{"cores", p.cores},
          {"recommended", p.recommended_threads},
          {"used", default_threads(environment)},
          {"why",
           environment.threads > 0 ? "MHC_NUM_THREADS" : "one per core that this process may use"},
          {"executor", "own pool, the caller takes part"}};
}

// A fresh output costs a page fault per page, often more than the kernel that fills it.
Json allocator_part() {
  constexpr const char* kTunables =
      "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=8589934592:glibc.malloc.trim_threshold="
      "17179869184";
  const std::string tunables = setting("GLIBC_TUNABLES");
  const bool keeps = tunables.find("glibc.malloc.mmap_threshold") != std::string::npos &&
                     tunables.find("glibc.malloc.trim_threshold") != std::string::npos;
  const bool huge = tunables.find("glibc.malloc.hugetlb") != std::string::npos;
  Json part;
  part["preloaded"] = setting("LD_PRELOAD");
  part["tunables"] = tunables;
  part["keeps_large_blocks"] = keeps;
  part["huge_pages"] = huge;
  part["transparent_huge_pages"] = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  const bool advise = keeps && huge;
  part["hint"] = advise || !part["preloaded"].get<std::string>().empty()
                     ? "large blocks are kept"
                     : fmt::format(
                           "each large output is mapped anew and faults once per page, which can "
                           "cost more than the "
                           "kernels; set GLIBC_TUNABLES={}",
                           kTunables);
  return part;
}

Json kernels_part(Isa ceiling) {
  Json part = Json::array();
  std::map<std::string, bool> taken;  // by operation and type
  for (int32_t i = 0; i < kernel_count(); ++i) {
    const mhc::KernelRow row = kernel_at(i);
    const bool usable = is_available(row.isa) && row.isa <= ceiling;
    part.push_back({{"operation", row.operation},
                    {"name", row.name},
                    {"isa", name_of(row.isa)},
                    {"dtype", name_of(row.dtype)},
                    {"usable", usable}});
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

// Operation by instruction set, the types that each cell has.
void print_kernels(const Json& kernels) {
  std::vector<std::string> operations;
  std::map<std::string, std::map<std::string, std::string>> cells;
  for (const Json& k : kernels) {
    const std::string operation = k["operation"], isa = k["isa"];
    if (cells.find(operation) == cells.end()) operations.push_back(operation);
    std::string& cell = cells[operation][isa];
    cell += (cell.empty() ? "" : " ") + k["dtype"].get<std::string>();
  }
  fmt::print("{:<16}", "kernels");
  for (int32_t i = 0; i < kIsas; ++i) {
    const Isa isa = static_cast<Isa>(i);
    fmt::print("{:<16}", std::string(name_of(isa)) + (is_available(isa) ? "" : " (no)"));
  }
  fmt::print("\n");
  for (const std::string& operation : operations) {
    fmt::print("  {:<14}", operation);
    for (int32_t i = 0; i < kIsas; ++i)
      fmt::print("{:<16}", cells[operation][name_of(static_cast<Isa>(i))]);
    fmt::print("\n");
  }
  fmt::print("  f64 goes through the definition in double, everywhere\n");
}

void print_text(const Json& info) {
  fmt::print("mhc {}\n", info["version"].get<std::string>());
  fmt::print("{:<16}{}\n", "processor", info["processor"].get<std::string>());
  const Json& isa = info["isa"];
  fmt::print("{:<16}{}: {}\n", "instructions", isa["chosen"].get<std::string>(),
             isa["why"].get<std::string>());
  for (const Json& i : isa["all"]) {
    fmt::print("  {:<14}{:<5}{}\n", i["name"].get<std::string>(),
               i["available"].get<bool>() ? "yes" : "no", i["meaning"].get<std::string>());
  }
  if (is_available(Isa::kAvx512Bf16)) {
    fmt::print("  the bf16 dot unit is {}\n",
               isa["bf16_dot_is_fast"].get<bool>()
                   ? "faster than f32 multiply-adds, and used"
                   : "no faster than f32 multiply-adds, and used where MHC_ISA asks for it");
  }
  std::string caches;
  for (const Json& c : info["caches"]) {
    caches += fmt::format("{}L{} {}", caches.empty() ? "" : ", ", c["level"].get<int>(),
                          c["size"].get<std::string>());
  }
  fmt::print("{:<16}{}\n", "caches", caches.empty() ? "unknown" : caches);
  const Json& t = info["threads"];
  fmt::print("{:<16}{} ({}), {}\n", "threads", t["used"].get<int>(), t["why"].get<std::string>(),
             t["executor"].get<std::string>());
  fmt::print(
      "{:<16}{}\n", "tuning",
      info["tuning"].get<std::string>().empty() ? "built in" : info["tuning"].get<std::string>());
  fmt::print("{:<16}{}\n", "allocator", info["allocator"]["hint"].get<std::string>());
  print_kernels(info["kernels"]);
  fmt::print("manifolds\n");
  for (const Json& m : info["manifolds"]) {
    fmt::print("  {:<14}n <= {:<3} L = {:<3} at n = 4  {}\n", m["name"].get<std::string>(),
               m["max_streams"].get<int64_t>(), m["logits_at_4"].get<int64_t>(),
               m["summary"].get<std::string>());
  }
  fmt::print("{:<16}{}\n", "presets",
             fmt::join(info["presets"].get<std::vector<std::string>>(), ", "));
}

}  // namespace

int run_info(bool json) {
  const Environment environment = read_environment();
  Json info;
  info["version"] = MHC_VERSION_STRING;
  info["processor"] = processor_name();
  info["isa"] = isa_part(environment);
  info["caches"] = caches_part();
  info["threads"] = threads_part(environment);
  info["tuning"] = environment.tuning;
  info["allocator"] = allocator_part();
  info["kernels"] = kernels_part(environment.ceiling);
  info["manifolds"] = manifolds_part();
  info["presets"] = presets_part();
  json ? fmt::print("{}\n", info.dump(2)) : print_text(info);
  return 0;
}

}  // namespace mhc::tool
