#include "mhc/trace.h"

#include <fmt/format.h>

#include "mhc/measure.h"

namespace mhc::tool {
namespace {

// Workers are threads 1, 2, ... of the trace, and whole calls the one above them.
constexpr int32_t kCalls = 0;

Json metadata(const char* kind, int32_t process, int32_t thread, const std::string& name) {
  return {
      {"name", kind}, {"ph", "M"}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

void Trace::begin_process(const std::string& name, int32_t workers) {
  if (++process_ == 0) origin_ = now();
  events_.push_back(metadata("process_name", process_, kCalls, name));
  events_.push_back(metadata("thread_name", process_, kCalls, "calls"));
  for (int32_t w = 0; w < workers; ++w) {
    events_.push_back(metadata("thread_name", process_, w + 1, fmt::format("worker {}", w)));
  }
}

void Trace::add(const std::string& name, int32_t thread, double begin, double end, int64_t task) {
  Json event{{"name", name},
             {"ph", "X"},
             {"pid", process_},
             {"tid", thread},
             {"ts", (begin - origin_) * 1e6},
             {"dur", (end - begin) * 1e6}};
  if (task >= 0) event["args"] = {{"task", task}};
  events_.push_back(std::move(event));
}

std::string Trace::text() const {
  return Json{{"displayTimeUnit", "ms"}, {"traceEvents", events_}}.dump();
}

Trace::Recorder::Recorder(Trace* trace, const std::string& name, const Executor& inner)
    : trace_(trace), name_(name), inner_(inner), start_(now()) {
  constexpr size_t kExpected = 4096;  // no allocation while tasks run, as a rule
  spans_.resize(static_cast<size_t>(inner.workers()));
  for (std::vector<Span>& spans : spans_) spans.reserve(kExpected);
  start_ = now();
}

Trace::Recorder::~Recorder() {
  trace_->add(name_, kCalls, start_, now(), -1);
  for (size_t w = 0; w < spans_.size(); ++w) {
    for (const Span& s : spans_[w]) {
      trace_->add(fmt::format("{}, phase {}", name_, s.phase), static_cast<int32_t>(w) + 1, s.begin,
                  s.end, s.task);
    }
  }
}

Executor Trace::Recorder::executor() { return {this, workers, run}; }

int32_t Trace::Recorder::workers(void* self) {
  return static_cast<Recorder*>(self)->inner_.workers();
}

void Trace::Recorder::run(void* self, int64_t tasks, TaskFunction task, void* task_context) {
  Recorder& recorder = *static_cast<Recorder*>(self);
  const int32_t phase = ++recorder.phases_;
  recorder.inner_.run(tasks, [&](int64_t index, int32_t worker) {
    const double begin = now();
    task(task_context, index, worker);
    recorder.spans_[static_cast<size_t>(worker)].push_back({phase, index, begin, now()});
  });
}

}  // namespace mhc::tool
