#pragma once
// What a measurement has to name: processor, caches, memory, kernel, compiler.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace mhc::tool {

using Json = nlohmann::ordered_json;

struct Cache {
  int64_t level = 0;
  int64_t bytes = 0;
  std::string shared_by;  // processors
};

struct Machine {
  std::string processor;
  bool guest = false;  // of a hypervisor, whose other guests use caches and memory too
  int64_t logical = 1, cores = 1, recommended_threads = 1;
  std::vector<Cache> caches;  // of data, ascending
  int64_t memory = 0, available = 0;
  double load = 0;  // processes that ran on average over the last minute
  std::string system, compiler;

  int64_t last_cache() const { return caches.empty() ? int64_t{32} << 20 : caches.back().bytes; }
};

Machine this_machine();
Json to_json(const Machine& machine);

std::string in_bytes(int64_t bytes);           // "2 MiB"
std::string describe(const Machine& machine);  // one line

}  // namespace mhc::tool
