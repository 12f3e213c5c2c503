#include "mhc/options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/isa.h"
#include "manifold/presets.h"

namespace mhc::tool {
namespace {

// Words of all arguments, separated by commas too.
std::vector<std::string> words_of(const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  for (const std::string& argument : arguments) {
    std::string word;
    for (const char c : argument + ",") {
      if (c != ',') {
        word += c;
      } else if (!word.empty()) {
        words.push_back(word);
        word.clear();
      }
    }
  }
  return words;
}

int64_t number(const std::string& option, const std::string& text, int64_t low, int64_t high) {
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || errno != 0 || value < low || value > high) {
    throw UsageError(
        fmt::format("{}: expected a number from {} to {}, got \"{}\"", option, low, high, text));
  }
  return value;
}

template <class Names>
[[noreturn]] void unknown(const std::string& option, const std::string& got, const Names& known) {
  throw UsageError(fmt::format("{}: expected {}, got \"{}\"", option, fmt::join(known, ", "), got));
}

std::vector<std::string> manifold_names() {
  std::vector<std::string> names;
  for (int32_t i = 0; manifold_at(i) != nullptr; ++i) names.emplace_back(manifold_at(i)->name);
  return names;
}

DType parse_dtype(const std::string& word) {
  constexpr const char* kLong[kDTypes] = {"float32", "bfloat16", "float16", "float64"};
  std::vector<std::string> known;
  for (int32_t i = 0; i < kDTypes; ++i) {
    const DType type = static_cast<DType>(i);
    if (word == name_of(type) || word == kLong[i]) return type;
    known.emplace_back(name_of(type));
  }
  unknown("--dtype", word, known);
}

std::vector<Precision> parse_precisions(const std::string& option,
                                        const std::vector<std::string>& arguments) {
  std::vector<Precision> all;
  for (const std::string& word : words_of(arguments)) {
    if (word != "float32" && word != "bfloat16") {
      unknown(option, word, std::vector<std::string>{"float32", "bfloat16"});
    }
    all.push_back(word == "float32" ? Precision::kFloat32 : Precision::kBFloat16);
  }
  return all;
}

Dims parse_dims(const std::string& text) {
  const std::vector<std::string> words = words_of({text});
  if (words.size() != 3 && words.size() != 4) {
    throw UsageError(fmt::format("--dims: expected T,n,D or B,S,n,D, got \"{}\"", text));
  }
  std::vector<int64_t> numbers;
  for (const std::string& word : words)
    numbers.push_back(number("--dims", word, 1, int64_t{1} << 31));
  const size_t last = numbers.size() - 1;
  const Dims dims{numbers[0] * (last == 3 ? numbers[1] : 1), numbers[last - 1], numbers[last]};
  if (dims.streams > kMaxStreams) {
    throw UsageError(
        fmt::format("--dims: expected 1 to {} streams, got {}", kMaxStreams, dims.streams));
  }
  if (dims.tokens > (int64_t{1} << 40) / dims.flat()) {
    throw UsageError(fmt::format("--dims: {} is more than 2^40 elements", text));
  }
  return dims;
}

}  // namespace

std::vector<Dims> Options::dims_or(std::vector<Dims> fallback) const {
  std::vector<Dims> all;
  for (const std::string& text : dims) all.push_back(parse_dims(text));
  return all.empty() ? fallback : all;
}

std::vector<DType> Options::dtypes_or(std::vector<DType> fallback) const {
  std::vector<DType> all;
  for (const std::string& word : words_of(dtypes)) all.push_back(parse_dtype(word));
  return all.empty() ? fallback : all;
}

std::vector<Spec> Options::specs_or(const char* fallback) const {
  if (!preset.empty()) {
    if (!manifolds.empty())
      throw UsageError("--preset: names a manifold itself; --manifold does not go with it");
    if (const Preset* found = find_preset(preset.c_str())) return {found->spec};
    std::vector<std::string> known;
    for (int32_t i = 0; preset_at(i) != nullptr; ++i) known.emplace_back(preset_at(i)->name);
    unknown("--preset", preset, known);
  }
  std::vector<Spec> all;
  for (const std::string& word :
       words_of(manifolds.empty() ? std::vector<std::string>{fallback} : manifolds)) {
    const ManifoldInfo* manifold = find_manifold(word.c_str());
    if (manifold == nullptr) unknown("--manifold", word, manifold_names());
    Spec spec;
    spec.manifold = manifold->id;
    all.push_back(spec);
  }
  return all;
}

std::vector<Precision> Options::phi_precisions() const {
  return parse_precisions("--phi-precision", phi);
}

std::vector<Precision> Options::gradient_precisions() const {
  return parse_precisions("--gradient-precision", gradient);
}

std::vector<Isa> Options::isas_or(std::vector<Isa> fallback) const {
  std::vector<Isa> all;
  for (const std::string& word : words_of(isas)) {
    Isa isa;
    if (!parse_isa(word.c_str(), &isa)) {
      std::vector<std::string> known;
      for (int32_t i = 0; i < kIsas; ++i) known.emplace_back(name_of(static_cast<Isa>(i)));
      unknown("--isa", word, known);
    }
    if (!is_available(isa)) throw UsageError(fmt::format("--isa: this processor lacks {}", word));
    all.push_back(isa);
  }
  return all.empty() ? fallback : all;
}

std::vector<int32_t> Options::threads_or(std::vector<int32_t> fallback) const {
  std::vector<int32_t> all;
  for (const std::string& word : words_of(threads)) {
    all.push_back(static_cast<int32_t>(number("--threads", word, 1, kMaxThreads)));
  }
  return all.empty() ? fallback : all;
}

std::vector<Precision> Options::phi_precisions_or(std::vector<Precision> fallback) const {
  std::vector<Precision> all;
  for (const std::string& word : words_of(phi)) {
    const bool wide = word == "float32";
    if (!wide && word != "bfloat16")
      unknown("--phi-precision", word, std::vector<std::string>{"float32", "bfloat16"});
    all.push_back(wide ? Precision::kFloat32 : Precision::kBFloat16);
  }
  return all.empty() ? fallback : all;
}

std::vector<std::string> Options::ops_of(const std::vector<std::string>& known) const {
  const std::vector<std::string> words = words_of(ops);
  for (const std::string& word : words) {
    if (std::find(known.begin(), known.end(), word) == known.end()) unknown("--op", word, known);
  }
  return words.empty() ? known : words;
}

void add_dims(CLI::App* app, Options* o) {
  app->add_option("--dims", o->dims, "T,n,D or B,S,n,D; several are run one after the other");
}

void add_types(CLI::App* app, Options* o) {
  app->add_option("--dtype", o->dtypes, "type of the activations: bf16, f32, f16, f64");
  app->add_option("--manifold", o->manifolds,
                  "residual manifold: " + fmt::format("{}", fmt::join(manifold_names(), ", ")));
  app->add_option("--preset", o->preset, "a named set of conventions instead of a manifold");
}

void add_machine(CLI::App* app, Options* o) {
  app->add_option("--isa", o->isas, "instruction sets: scalar, avx2, avx512, avx512bf16");
  app->add_option("--threads", o->threads, "numbers of threads, such as 1,2");
}

}  // namespace mhc::tool
