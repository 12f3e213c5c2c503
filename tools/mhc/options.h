#pragma once
// What the subcommands share: lists on the command line, runtimes, errors.

#include <CLI/CLI.hpp>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/dims.h"
#include "base/pool.h"
#include "base/runtime.h"
#include "manifold/spec.h"
#include "tune/table.h"

namespace mhc::tool {

// Something that the user has to change: printed as one line, exit status 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Options {
  std::vector<std::string> dims, dtypes, manifolds, isas, threads, ops, phi, gradient;
  std::string preset, json, trace;
  bool packed = false;  // phi, by the caller
  bool one_token = false;
  double seconds = 0.4;  // of each row

  std::vector<Dims> dims_or(std::vector<Dims> fallback) const;
  std::vector<DType> dtypes_or(std::vector<DType> fallback) const;
  std::vector<Spec> specs_or(const char* fallback) const;  // of manifolds or of the preset
  // Empty where none is named.
  std::vector<Precision> phi_precisions() const;
  std::vector<Precision> gradient_precisions() const;
  std::vector<Isa> isas_or(std::vector<Isa> fallback) const;
  std::vector<int32_t> threads_or(std::vector<int32_t> fallback) const;
  std::vector<Precision> phi_precisions_or(std::vector<Precision> fallback) const;
  std::vector<std::string> ops_of(
      const std::vector<std::string>& known) const;  // all where none is named
};

void add_dims(CLI::App* app, Options* o);
void add_types(CLI::App* app, Options* o);    // --dtype, --manifold, --preset
void add_machine(CLI::App* app, Options* o);  // --isa, --threads

// Environment: ceiling and tuning table of runtimes made here. Usage errors for values that mean
// nothing.
struct Environment {
  Isa ceiling = Isa::kAvx512Bf16;
  bool ceiling_named = false;
  int32_t threads = 0;  // 0: not named
  std::string tuning;
};
Environment read_environment();

// A pool of our own with a runtime on it.
class PoolRuntime {
 public:
  PoolRuntime(int32_t threads, bool pin, Isa ceiling, bool exact, const std::string& tuning = {});
  Runtime runtime;

 private:
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<TuningTable> table_;
};

// Instruction sets of this machine up to the environment's ceiling, ascending.
std::vector<Isa> usable_isas(const Environment& environment);
int32_t default_threads(const Environment& environment);

// The text of a file's first line, or "" where there is none.
std::string first_line(const std::string& path);
std::string processor_name();

// Creates the file at once, so that a bad path is known before minutes of work.
class JsonFile {
 public:
  explicit JsonFile(const std::string& path);
  ~JsonFile();
  JsonFile(const JsonFile&) = delete;
  JsonFile& operator=(const JsonFile&) = delete;
  explicit operator bool() const { return file_ != nullptr; }
  void write(const std::string& text);

 private:
  std::string path_;
  std::FILE* file_ = nullptr;
};

int run_info(bool json);
int run_verify(const Options& options);
int run_bench(const Options& options);
int run_tune(const Options& options, const std::string& output);

}  // namespace mhc::tool
