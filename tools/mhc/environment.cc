// What options.h says of the environment: runtimes, instruction sets, files.

#include "api/environment.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "base/processors.h"
#include "mhc/options.h"

namespace mhc::tool {

Environment read_environment() {
  mhc_runtime_options options{};
  const Status status = api::read_environment(&options);
  if (!status.ok()) throw UsageError(status.message);
  Environment environment;
  environment.threads = options.num_threads;
  environment.ceiling_named = options.isa != nullptr;
  if (options.isa != nullptr) parse_isa(options.isa, &environment.ceiling);
  if (options.tuning != nullptr) environment.tuning = options.tuning;
  return environment;
}

PoolRuntime::PoolRuntime(int32_t threads, bool pin, Isa ceiling, bool exact,
                         const std::string& tuning)
    : pool_(ThreadPool::create(threads, pin)) {
  if (!pool_) throw UsageError(fmt::format("--threads: cannot start {} threads", threads));
  runtime.executor = pool_->executor();
  runtime.ceiling = ceiling;
  runtime.exact_isa = exact;
  if (tuning.empty()) return;
  table_ = std::make_unique<TuningTable>();
  const Status status = load_tuning_table(tuning.c_str(), table_.get());
  if (!status.ok()) throw UsageError(status.message);
  runtime.table = table_.get();
  runtime.lookup = look_up_tuning;
}

std::vector<Isa> usable_isas(const Environment& environment) {
  std::vector<Isa> all;
  for (int32_t i = 0; i < kIsas; ++i) {
    const Isa isa = static_cast<Isa>(i);
    if (is_available(isa) && isa <= environment.ceiling) all.push_back(isa);
  }
  return all;
}

int32_t default_threads(const Environment& environment) {
  return environment.threads > 0 ? environment.threads : usable_processors().recommended_threads;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos)
      return line.substr(colon + 2);
  }
  return "unknown";
}

JsonFile::JsonFile(const std::string& path) : path_(path) {
  if (path.empty()) return;
  file_ = std::fopen(path.c_str(), "w");
  if (file_ == nullptr) throw UsageError(fmt::format("{}: {}", path, std::strerror(errno)));
}

JsonFile::~JsonFile() {
  if (file_ != nullptr) std::fclose(file_);
}

void JsonFile::write(const std::string& text) {
  if (file_ == nullptr) return;
  if (std::fputs((text + "\n").c_str(), file_) < 0 || std::fflush(file_) != 0) {
    throw std::runtime_error(fmt::format("{}: {}", path_, std::strerror(errno)));
  }
}

}  // namespace mhc::tool
