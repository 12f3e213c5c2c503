#include "mhc/tune_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "mhc/measure.h"

namespace mhc::tool {
namespace {

constexpr int64_t kRounds = 9;
// What a choice has to win before it replaces the built-in one, and in how many rounds of the last
// comparison: less is noise.
constexpr double kWorthwhile = 0.98;
constexpr int64_t kWonRounds = 7;

#define MHC_SET(member) \
  [](Tuning* t, int64_t value) { t->member = static_cast<decltype(t->member)>(value); }

Knob tokens_per_task(BenchOp op) {
  return {op, "tokens_per_task", {4, 16, 32, 64, 128, 256}, MHC_SET(tokens_per_task)};
}

Knob stream_bytes(BenchOp op) {
  return {op, "stream_bytes", {0, std::numeric_limits<int64_t>::max()}, MHC_SET(stream_bytes)};
}

TuningRow row_of(BenchOp op, const SiteProblem& problem, int32_t workers) {
  TuningRow row;
  std::strcpy(row.operation, name_of(op));
  row.dtype = problem.dtype;
  row.workers = workers;
  row.streams = problem.dims.streams;
  row.embedding = problem.dims.embedding;
  row.tokens = problem.dims.tokens;
  return row;
}

// Runs calls under one choice after another.
class Trial {
 public:
  Trial(BenchOp op, RotatingSite* memory, const Runtime& runtime)
      : op_(op), memory_(memory), table_(std::make_unique<TuningTable>()), runtime_(runtime) {
    table_->rows[0] = row_of(op, memory->problem(), runtime.executor.workers());
    table_->count = 1;
    runtime_.table = table_.get();
    runtime_.lookup = look_up_tuning;
  }

  double seconds(const Tuning& choice) {
    table_->rows[0].choice = choice;
    memory_->prepare(runtime_);
    const double start = now();
    memory_->run(op_, turn_++, runtime_);
    return now() - start;
  }

 private:
  BenchOp op_;
  RotatingSite* memory_;
  std::unique_ptr<TuningTable> table_;
  Runtime runtime_;
  int64_t turn_ = 0;
};

// Every choice once a round, so that what else the machine does falls on all alike.
std::vector<std::vector<double>> rounds_of(const std::vector<Tuning>& choices, Trial* trial) {
  std::vector<std::vector<double>> seconds(choices.size());
  for (const Tuning& choice : choices) trial->seconds(choice);
  for (int64_t round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < choices.size(); ++i) seconds[i].push_back(trial->seconds(choices[i]));
  }
  return seconds;
}

std::vector<double> medians(const std::vector<std::vector<double>>& rounds) {
  std::vector<double> result;
  for (const std::vector<double>& seconds : rounds) result.push_back(timing_of(seconds).median);
  return result;
}

}  // namespace

std::vector<Knob> knobs_of(BenchOp op) {
  switch (op) {
    case BenchOp::kPre:
      return {{op, "pre_tile_tokens", {8, 16, 24, 32, 48, 64}, MHC_SET(pre_tile_tokens)},
              stream_bytes(op)};
    case BenchOp::kPost:
    case BenchOp::kPostBackward:
      return {tokens_per_task(op), stream_bytes(op)};
    case BenchOp::kPreBackward:
      break;
  }
  return {
      {op, "backward_wave_tokens", {128, 256, 512, 1024}, MHC_SET(backward_wave_tokens)},
      {op, "backward_panel_features", {32, 64, 128, 256, 512}, MHC_SET(backward_panel_features)}};
}
#undef MHC_SET

TuneResult tune_operation(BenchOp op, RotatingSite* memory, const Runtime& runtime,
                          void (*next)(void* context, const Knob& knob), void* context) {
  Trial trial(op, memory, runtime);
  TuneResult result;
  Tuning best;
  for (const Knob& knob : knobs_of(op)) {
    next(context, knob);
    std::vector<Tuning> choices{best};
    for (const int64_t value : knob.values) {
      choices.push_back(best);
      knob.set(&choices.back(), value);
    }
    const std::vector<double> seconds = medians(rounds_of(choices, &trial));
    const size_t least =
        static_cast<size_t>(std::min_element(seconds.begin(), seconds.end()) - seconds.begin());
    if (seconds[least] >= kWorthwhile * seconds[0]) continue;
    best = choices[least];
    result.changes += fmt::format("{}{} {}", result.changes.empty() ? "" : ", ", knob.name,
                                  knob.values[least - 1]);
  }
  // Once more, side by side: the winner of many is partly lucky.
  const std::vector<std::vector<double>> rounds = rounds_of({Tuning{}, best}, &trial);
  const std::vector<double> seconds = medians(rounds);
  int64_t won = 0;
  for (size_t i = 0; i < rounds[0].size(); ++i) won += rounds[1][i] < rounds[0][i] ? 1 : 0;
  if (seconds[1] >= kWorthwhile * seconds[0] || won < kWonRounds) {
    best = Tuning{};
    result.changes.clear();
  }
  result.builtin_seconds = seconds[0];
  result.chosen_seconds = result.changes.empty() ? seconds[0] : seconds[1];
  result.row = row_of(op, memory->problem(), runtime.executor.workers());
  result.row.choice = best;
  return result;
}

}  // namespace mhc::tool
