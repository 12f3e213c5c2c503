#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/dtype.h"
#include "base/isa.h"
#include "mhc/info.h"

namespace mhc::tool {
namespace {

std::string text(const Json& value) { return value.get<std::string>(); }

void print_entry(const char* name, const std::string& value) {
  fmt::print("{:<14}{}\n", name, value);
}

void print_isas(const Json& isa) {
  print_entry("instructions", text(isa["chosen"]) + ": " + text(isa["reason"]));
  for (const Json& i : isa["all"]) {
    fmt::print("  {:<12}{:<4}{}\n", text(i["name"]), i["available"].get<bool>() ? "yes" : "no",
               text(i["meaning"]));
  }
}

// Operation and type by instruction set: + built, * chosen.
void print_kernels(const Json& kernels) {
  std::vector<std::string> order;
  std::map<std::string, std::map<std::string, char>> marks;
  for (const Json& k : kernels) {
    const std::string row = fmt::format("{:<14} {:<5}", text(k["operation"]), text(k["dtype"]));
    if (std::find(order.begin(), order.end(), row) == order.end()) order.push_back(row);
    marks[row][text(k["isa"])] = k["chosen"].get<bool>() ? '*' : '+';
  }
  print_entry("kernels", "+ built  * chosen here; f64 goes through the definition in double");
  fmt::print("  {:<20}", "");
  for (int32_t i = 0; i < kIsas; ++i) {
    const Isa isa = static_cast<Isa>(i);
    fmt::print("  {}{}", name_of(isa), is_available(isa) ? "" : " (no)");
  }
  fmt::print("\n");
  for (const std::string& row : order) {
    fmt::print("  {}", row);
    for (int32_t i = 0; i < kIsas; ++i) {
      const Isa isa = static_cast<Isa>(i);
      const size_t width = std::string(name_of(isa)).size() + (is_available(isa) ? 0 : 5);
      const auto mark = marks[row].find(name_of(isa));
      fmt::print("  {:^{}}", mark == marks[row].end() ? ' ' : mark->second, width);
    }
    fmt::print("\n");
  }
}

void print_manifolds(const Json& manifolds) {
  fmt::print("manifolds\n");
  for (const Json& m : manifolds) {
    fmt::print("  {:<14}n <= {:<3} L = {:<3} at n = 4  {}\n", text(m["name"]),
               m["max_streams"].get<int64_t>(), m["logits_at_4"].get<int64_t>(),
               text(m["summary"]));
  }
}

}  // namespace

void print_info(const Json& info) {
  print_entry("mhc", text(info["version"]));
  print_entry("machine", text(info["machine"]["summary"]));
  print_entry("system", text(info["machine"]["system"]) + ", built with " +
                            text(info["machine"]["compiler"]));
  print_isas(info["isa"]);
  const Json& threads = info["threads"];
  print_entry("threads", fmt::format("{} ({}), {}", threads["used"].get<int64_t>(),
                                     text(threads["reason"]), text(threads["executor"])));
  const std::string tuning = text(info["tuning"]);
  print_entry("tuning",
              tuning.empty() ? "built in (MHC_TUNING names a table of `mhc tune`)" : tuning);
  const Json& allocator = info["allocator"];
  print_entry("allocator", text(allocator["summary"]));
  if (!text(allocator["hint"]).empty()) print_entry("", text(allocator["hint"]));
  print_kernels(info["kernels"]);
  print_manifolds(info["manifolds"]);
  std::string presets;
  for (const Json& p : info["presets"]) presets += (presets.empty() ? "" : ", ") + text(p);
  print_entry("presets", presets);
}

}  // namespace mhc::tool
