#pragma once
// Every operation of the C interface with arguments that it accepts, described well enough for a
// test to spoil them one at a time.

#include <mhc/mhc.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace mhc::api {

struct Sizes {
  int64_t tokens = 6, streams = 4, embedding = 10;
  mhc_dtype activation = MHC_BF16;
  const char* preset = "deepseek_v4";
};

struct Argument {
  std::string name;
  mhc_tensor* tensor;
  std::string letters;  // its extents: T, n, D, m, g (groups)
  bool output;
  bool optional;          // absent is fine, all else unchanged
  bool rows;              // strides but the last are free
  bool decisive;          // fixes T and D, perhaps n, and the type for the others
  unsigned char* memory;  // what it has however its tensor is spoilt
  int64_t bytes;
};

struct Operation {
  std::string name;
  std::vector<Argument> arguments;
  size_t* struct_size = nullptr;
  const mhc_spec** spec = nullptr;  // null where the operation has none
  mhc_spec spec_value;
  mhc_workspace* workspace = nullptr;
  int32_t* accumulate = nullptr;
  mhc_kind* kind = nullptr;
  int64_t* embedding_total = nullptr;
  int64_t* streams = nullptr;
  int32_t* mode = nullptr;
  mhc_param_gradients* gradients = nullptr;
  std::vector<std::pair<std::string, std::string>> aliases;  // output may be exactly input
  std::function<mhc_status(const mhc_runtime*)> call;
  std::function<mhc_status(const mhc_runtime*)> call_without_args;

  std::shared_ptr<void> args;
  std::vector<std::unique_ptr<unsigned char[]>> memory;

  Argument* find(const std::string& argument);
  void poison_outputs();
  bool outputs_untouched() const;
  bool outputs_written() const;  // no element still holds the poison
};

std::vector<std::string> operation_names();
std::unique_ptr<Operation> make_operation(const std::string& name, const Sizes& sizes);

}  // namespace mhc::api
