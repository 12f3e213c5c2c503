#pragma once
// The memory and arguments of a case, filled with reproducible numbers, ready to be run by any
// kernel.
//
// Numbers are such that every term counts: streams differ in scale, cotangents are random in both
// indices, gates spread over their range. Outputs are NaN before every run.

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/runtime.h"
#include "verify/cases.h"
#include "verify/expect.h"
#include "verify/random.h"

namespace mhc::verify {

class Problem {
 public:
  static std::unique_ptr<Problem> make(const Case& c);
  virtual ~Problem() = default;

  // Outputs poisoned, in-place inputs and accumulators restored, then the operation, in a workspace
  // of exactly the size that it names.
  Status run(const Runtime& runtime);
  void restore();  // everything as before a run
  // The operation alone, for tests of the call itself; prepared by restore() or a run.
  virtual Status call(const Runtime& runtime, Workspace workspace) = 0;
  virtual size_t workspace_bytes(const Runtime&) const { return 0; }
  // The definition on the same arguments.
  void run_reference();

  virtual std::vector<Expected> expect(bool split_phi) = 0;
  virtual std::vector<Output> outputs() const = 0;

  // Empty when guards, gaps and inputs are untouched.
  std::string damage() const;
  // The outputs' bits.
  std::vector<uint8_t> bits() const;
  // The inputs by name, for tests that change some of them; call changed() afterwards.
  Tensor input(const std::string& name) const;
  void changed() { remember(); }

 protected:
  explicit Problem(const Case& c) : case_(c), random_(c.seed) {}

  virtual void call_reference() = 0;
  virtual Status prepare(const Runtime&) { return {}; }

  DType gate_type() const { return case_.dtype == DType::kF64 ? DType::kF64 : DType::kF32; }
  DType param_type() const { return case_.dtype == DType::kF64 ? DType::kF64 : case_.param_dtype; }

  // Inputs with this spread around a mean.
  Tensor normal(const char* name, DType type, std::vector<int64_t> shape, double scale,
                double mean = 0);
  Tensor activation(const char* name, int64_t planes);  // [T, n, D], or [T, D] where planes is 0
  Tensor cotangent(const char* name, int64_t planes);
  Tensor uniform(const char* name, DType type, std::vector<int64_t> shape, double low, double high);
  // Outputs; `index` is the operation's number for it, absent unless the case asks for it.
  Tensor output(const char* name, int32_t index, DType type, std::vector<int64_t> shape,
                bool activation);
  // A parameter's gradient, which holds numbers when it accumulates.
  Tensor gradient(const char* name, int32_t index, DType parameter, std::vector<int64_t> shape);
  Params parameters(const GateLayout& layout, bool with_gates);
  bool wanted(int32_t index) const { return ((case_.outputs >> index) & 1u) != 0; }
  // The memory of `input` serves as this output.
  Tensor alias(const char* name, const char* input);
  void remember();  // what has to be there before each run

  Case case_;

 private:
  struct Held {
    std::string name;
    Buffer buffer;
    bool written = false;  // by the operation
    bool read = false;
    std::vector<uint8_t> before;
  };
  Held& hold(const char* name, Buffer buffer, bool read, bool written);
  Buffer make_buffer(DType type, std::vector<int64_t> shape, bool activation);

  Random random_;
  std::deque<Held> held_;
};

}  // namespace mhc::verify
