#include "mhc/machine.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/processors.h"
#include "mhc/options.h"

namespace mhc::tool {
namespace {

constexpr int64_t kKib = 1024;

// "266240K" or "2M" in bytes.
int64_t bytes_of(const std::string& text) {
  char* end = nullptr;
  const int64_t value = std::strtoll(text.c_str(), &end, 10);
  return value * (*end == 'K'   ? kKib
                  : *end == 'M' ? kKib * kKib
                  : *end == 'G' ? kKib * kKib * kKib
                                : 1);
}

std::vector<Cache> data_caches() {
  std::vector<Cache> caches;
  for (int32_t i = 0; i < 8; ++i) {
    const std::string folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", i);
    const std::string size = first_line(folder + "size");
    if (size.empty() || first_line(folder + "type") == "Instruction") continue;
    caches.push_back({std::atoi(first_line(folder + "level").c_str()), bytes_of(size),
                      first_line(folder + "shared_cpu_list")});
  }
  return caches;
}

bool is_guest() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("flags", 0) == 0) return line.find(" hypervisor") != std::string::npos;
  }
  return false;
}

// "MemTotal:  24657080 kB"
int64_t memory_entry(const std::string& name) {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name + ":", 0) == 0) {
      return std::strtoll(line.c_str() + name.size() + 1, nullptr, 10) * kKib;
    }
  }
  return 0;
}

std::string system_name() {
  utsname names{};
  if (uname(&names) != 0) return "unknown";
  return fmt::format("{} {} {}", names.sysname, names.release, names.machine);
}

}  // namespace

Machine this_machine() {
  const Processors usable = usable_processors();
  Machine m;
  m.processor = processor_name();
  m.guest = is_guest();
  m.logical = std::max<int64_t>(std::thread::hardware_concurrency(), 1);
  m.cores = usable.cores;
  m.recommended_threads = usable.recommended_threads;
  m.caches = data_caches();
  m.memory = memory_entry("MemTotal");
  m.available = memory_entry("MemAvailable");
  if (getloadavg(&m.load, 1) != 1) m.load = 0;
  m.system = system_name();
#if defined(__clang__)
  m.compiler = fmt::format("clang {}.{}", __clang_major__, __clang_minor__);
#else
  m.compiler = fmt::format("g++ {}.{}", __GNUC__, __GNUC_MINOR__);
#endif
  return m;
}

std::string in_bytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit < 4; ++unit) value /= 1024;
  return fmt::format(
      "{:.{}f} {}", value,
      value < 10 && value != static_cast<double>(static_cast<int64_t>(value)) ? 1 : 0,
      kUnits[unit]);
}

std::string describe(const Machine& m) {
  std::string caches;
  for (const Cache& c : m.caches) caches += fmt::format(", L{} {}", c.level, in_bytes(c.bytes));
  return fmt::format("{}{}, {} core{}{}, memory {}", m.processor,
                     m.guest ? " (virtual machine)" : "", m.cores, m.cores == 1 ? "" : "s", caches,
                     in_bytes(m.memory));
}

Json to_json(const Machine& m) {
  Json json{{"processor", m.processor},
            {"virtual_machine", m.guest},
            {"logical_processors", m.logical},
            {"cores", m.cores},
            {"recommended_threads", m.recommended_threads}};
  json["caches"] = Json::array();
  for (const Cache& c : m.caches) {
    json["caches"].push_back({{"level", c.level}, {"bytes", c.bytes}, {"shared_by", c.shared_by}});
  }
  json["memory_bytes"] = m.memory;
  json["available_bytes"] = m.available;
  json["load"] = m.load;
  json["system"] = m.system;
  json["compiler"] = m.compiler;
  return json;
}

}  // namespace mhc::tool
