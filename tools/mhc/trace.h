#pragma once
// Records which worker ran which task when, as a Chrome trace (chrome://tracing, Perfetto).

#include <cstdint>
#include <string>
#include <vector>

#include "base/executor.h"
#include "mhc/machine.h"

namespace mhc::tool {

class Trace {
 public:
  // Begins a process of the trace: everything until the next belongs to it.
  void begin_process(const std::string& name, int32_t workers);
  // f(executor), shown as one call with the tasks that it runs on that executor.
  template <class F>
  void record(const std::string& name, const Executor& inner, const F& f) {
    Recorder recorder(this, name, inner);
    f(recorder.executor());
  }
  std::string text() const;

 private:
  class Recorder {
   public:
    Recorder(Trace* trace, const std::string& name, const Executor& inner);
    ~Recorder();
    Recorder(const Recorder&) = delete;
    Recorder& operator=(const Recorder&) = delete;
    Executor executor();

   private:
    struct Span {
      int32_t phase;
      int64_t task;
      double begin, end;  // seconds
    };
    static int32_t workers(void* self);
    static void run(void* self, int64_t tasks, TaskFunction task, void* task_context);

    Trace* trace_;
    std::string name_;
    Executor inner_;
    double start_;
    int32_t phases_ = 0;
    std::vector<std::vector<Span>> spans_;  // by worker
  };

  void add(const std::string& name, int32_t thread, double begin, double end, int64_t task);

  int32_t process_ = -1;
  double origin_ = 0;
  Json events_ = Json::array();
};

}  // namespace mhc::tool
