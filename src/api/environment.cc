#include "api/environment.h"

#include <cstdlib>

#include "base/isa.h"
#include "base/pool.h"
#include "base/text.h"

namespace mhc::api {
namespace {

// A variable that is set to something.
const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

Status parse_threads(const char* text, int32_t* threads) {
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*end != '\0' || value < 1 || value > kMaxThreads) {
    return Status::error(StatusCode::kInput,
                         "MHC_NUM_THREADS: expected a number from 1 to %d, got \"%.100s\"",
                         kMaxThreads, text);
  }
  *threads = static_cast<int32_t>(value);
  return {};
}

}  // namespace

Status parse_isa_option(StatusCode code, const char* where, const char* name, Isa* isa) {
  if (parse_isa(name, isa)) return {};
  Text<120> known;
  for (int32_t i = 0; i < kIsas; ++i) {
    known.add("%s%s", i == 0 ? "" : i + 1 < kIsas ? ", " : " or ", name_of(static_cast<Isa>(i)));
  }
  return Status::error(code, "%s: expected %s, got \"%.100s\"", where, known.c_str(), name);
}

Status read_environment(mhc_runtime_options* options) {
  options->isa = variable("MHC_ISA");
  options->tuning = variable("MHC_TUNING");
  options->num_threads = 0;
  Isa unused;
  if (options->isa != nullptr) {
    MHC_RETURN_IF_ERROR(parse_isa_option(StatusCode::kInput, "MHC_ISA", options->isa, &unused));
  }
  const char* threads = variable("MHC_NUM_THREADS");
  return threads == nullptr ? Status{} : parse_threads(threads, &options->num_threads);
}

}  // namespace mhc::api
