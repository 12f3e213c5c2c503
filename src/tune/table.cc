#include "tune/table.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace mhc {
namespace {

constexpr const char* kHeader = "mhc-tuning 1";

struct Field {
  const char* name;
  int64_t low, high, multiple;
  void (*set)(TuningRow* row, int64_t value);
  int64_t (*get)(const TuningRow& row);
};

#define MHC_FIELD(name, member, low, high, multiple)                                      \
  Field {                                                                                 \
    name, low, high, multiple,                                                            \
        [](TuningRow* r, int64_t v) { r->member = static_cast<decltype(r->member)>(v); }, \
        [](const TuningRow& r) { return static_cast<int64_t>(r.member); }                 \
  }

constexpr Field kFields[] = {
    MHC_FIELD("workers", workers, 1, 1 << 20, 1),
    MHC_FIELD("streams", streams, 1, 16, 1),
    MHC_FIELD("embedding", embedding, 1, int64_t{1} << 40, 1),
    MHC_FIELD("tokens", tokens, 1, int64_t{1} << 40, 1),
    MHC_FIELD("pre_tile_tokens", choice.pre_tile_tokens, 0, 1 << 16, 1),
    MHC_FIELD("backward_wave_tokens", choice.backward_wave_tokens, 0, 1 << 16, 128),
    MHC_FIELD("backward_panel_features", choice.backward_panel_features, 0, 1 << 16, 32),
    MHC_FIELD("tokens_per_task", choice.tokens_per_task, 0, 1 << 20, 1),
    MHC_FIELD("stream_bytes", choice.stream_bytes, -1, INT64_MAX, 1),
};
#undef MHC_FIELD
constexpr int32_t kKeys = 4;  // the first ones, which every row has

bool parse_dtype(const char* text, DType* dtype) {
  for (int32_t i = 0; i < kDTypes; ++i) {
    if (std::strcmp(text, name_of(static_cast<DType>(i))) == 0) {
      *dtype = static_cast<DType>(i);
      return true;
    }
  }
  return false;
}

// "name=value" into the row; the field's index, or -1.
int32_t parse_field(char* word, TuningRow* row) {
  char* equals = std::strchr(word, '=');
  if (equals == nullptr) return -1;
  *equals = '\0';
  for (int32_t i = 0; i < static_cast<int32_t>(sizeof(kFields) / sizeof(kFields[0])); ++i) {
    const Field& field = kFields[i];
    if (std::strcmp(word, field.name) != 0) continue;
    char* end = nullptr;
    errno = 0;
    const long long value = std::strtoll(equals + 1, &end, 10);
    if (errno != 0 || end == equals + 1 || *end != '\0' || value < field.low ||
        value > field.high || value % field.multiple != 0) {
      break;
    }
    field.set(row, value);
    return i;
  }
  *equals = '=';
  return -1;
}

// Null when the line holds a row, else the word that is wrong.
const char* parse_row(char* line, TuningRow* row) {
  char* rest = nullptr;
  const char* operation = strtok_r(line, " \t\r\n", &rest);
  if (std::strlen(operation) >= sizeof(row->operation)) return operation;
  std::strcpy(row->operation, operation);
  char* dtype = strtok_r(nullptr, " \t\r\n", &rest);
  if (dtype == nullptr || !parse_dtype(dtype, &row->dtype))
    return dtype == nullptr ? "nothing" : dtype;
  uint32_t seen = 0;
  while (char* word = strtok_r(nullptr, " \t\r\n", &rest)) {
    const int32_t field = parse_field(word, row);
    if (field < 0) return word;
    seen |= 1u << field;
  }
  constexpr uint32_t kNeeded = (1u << kKeys) - 1;
  return (seen & kNeeded) == kNeeded ? nullptr
                                     : "a row without workers, streams, embedding or tokens";
}

Status wrong_line(const char* path, int32_t line, const char* expected, const char* got) {
  return Status::error(StatusCode::kInput, "tuning table %.120s: line %d: expected %s, got %.100s",
                       path, line, expected, got);
}

Status parse_file(std::FILE* file, const char* path, TuningTable* table) {
  char line[512];
  for (int32_t number = 1; std::fgets(line, sizeof(line), file) != nullptr; ++number) {
    line[std::strcspn(line, "\r\n")] = '\0';
    if (number == 1) {
      if (std::strcmp(line, kHeader) != 0) return wrong_line(path, 1, "\"mhc-tuning 1\"", line);
      continue;
    }
    const char* first = line + std::strspn(line, " \t");
    if (*first == '\0' || *first == '#') continue;
    if (table->count == TuningTable::kMaxRows)
      return wrong_line(path, number, "at most 512 rows", "more");
    TuningRow row;
    const char* wrong = parse_row(line, &row);
    if (wrong != nullptr) {
      return wrong_line(
          path, number,
          "\"OPERATION f32|bf16|f16 workers= streams= embedding= tokens= CHOICE=...\"", wrong);
    }
    table->rows[table->count++] = row;
  }
  return table->count > 0 || std::ftell(file) > 0
             ? Status{}
             : wrong_line(path, 1, "\"mhc-tuning 1\"", "nothing");
}

}  // namespace

Status load_tuning_table(const char* path, TuningTable* table) {
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) {
    return Status::error(StatusCode::kInput, "tuning table %.200s: %s", path, std::strerror(errno));
  }
  table->count = 0;
  const Status status = parse_file(file, path, table);
  std::fclose(file);
  if (!status.ok()) table->count = 0;
  return status;
}

Status save_tuning_table(const char* path, const TuningTable& table) {
  std::FILE* file = std::fopen(path, "we");
  if (file == nullptr) {
    return Status::error(StatusCode::kInput, "tuning table %.200s: %s", path, std::strerror(errno));
  }
  std::fprintf(file, "%s\n", kHeader);
  for (int32_t i = 0; i < table.count; ++i) {
    const TuningRow& row = table.rows[i];
    std::fprintf(file, "%s %s", row.operation, name_of(row.dtype));
    const TuningRow defaults;
    for (const Field& field : kFields) {
      const bool is_key = &field - kFields < kKeys;
      if (!is_key && field.get(row) == field.get(defaults)) continue;
      std::fprintf(file, " %s=%lld", field.name, static_cast<long long>(field.get(row)));
    }
    std::fprintf(file, "\n");
  }
  const bool failed = std::ferror(file) != 0;
  if (std::fclose(file) != 0 || failed) {
    return Status::error(StatusCode::kInput, "tuning table %.200s: cannot be written", path);
  }
  return {};
}

Tuning look_up_tuning(const TuningTable* table, const char* operation, int64_t tokens,
                      int64_t streams, int64_t embedding, int32_t dtype, int32_t workers) {
  const TuningRow* best = nullptr;
  for (int32_t i = 0; i < table->count; ++i) {
    const TuningRow& row = table->rows[i];
    if (row.tokens > tokens || row.streams != streams || row.embedding != embedding ||
        row.workers != workers || static_cast<int32_t>(row.dtype) != dtype ||
        std::strcmp(row.operation, operation) != 0) {
      continue;
    }
    if (best == nullptr || row.tokens > best->tokens) best = &row;
  }
  return best == nullptr ? Tuning{} : best->choice;
}

}  // namespace mhc
