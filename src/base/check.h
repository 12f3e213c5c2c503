#pragma once
// What the check of each operation is made of. Messages name operation, argument, wanted and got:
//
//   post: h_res: expected shape [T=128, n=4, n=4], got [128, 4, 5]
//
// The first violation is kept; nothing is allocated and no tensor's elements are touched.

#include <cstdint>
#include <initializer_list>

#include "base/dtype.h"
#include "base/status.h"
#include "base/tensor.h"

namespace mhc {

// One extent of a wanted shape: a number, or any number from a minimum up.
struct Extent {
  const char* name;
  int64_t size;
  bool free = false;
};
constexpr Extent free_extent(const char* name, int64_t minimum) { return {name, minimum, true}; }
using Shape = std::initializer_list<Extent>;

// A set of element types.
struct DTypes {
  uint32_t mask = 0;
  constexpr bool has(DType t) const {
    return is_valid(t) && (mask >> static_cast<int32_t>(t) & 1) != 0;
  }
  constexpr DTypes operator|(DTypes o) const { return {mask | o.mask}; }
};
constexpr DTypes only(DType t) {
  return {is_valid(t) ? 1u << static_cast<int32_t>(t) : 0u};  // an invalid type has been refused
}
inline constexpr DTypes kF32OrF64 = only(DType::kF32) | only(DType::kF64);
inline constexpr DTypes kAnyFloat = kF32OrF64 | only(DType::kBF16) | only(DType::kF16);

// The type of gates and saved values, and the types of parameters, beside an activation type.
constexpr DType gate_type(DType activation) {
  return activation == DType::kF64 ? DType::kF64 : DType::kF32;
}
constexpr DTypes parameter_types(DType activation) {
  return activation == DType::kF64 ? only(DType::kF64) : only(DType::kF32) | only(DType::kBF16);
}

enum class Layout : int32_t {
  kContiguous,
  kRows,  // the last extent contiguous, other strides free: 0 only in inputs
};

class Checker {
 public:
  explicit Checker(const char* operation) : operation_(operation) {}

  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }

  // Keeps the first error. The format begins behind "<operation>: <argument>: ".
  [[gnu::format(printf, 4, 5)]] bool fail(StatusCode code, const char* argument, const char* format,
                                          ...);

  // A tensor that must be there, or may be absent. False once there is an error.
  bool input(const char* name, const Tensor& t, Shape shape, DTypes types,
             Layout layout = Layout::kContiguous) {
    return tensor(name, t, shape, types, layout, kRequired);
  }
  bool optional_input(const char* name, const Tensor& t, Shape shape, DTypes types,
                      Layout layout = Layout::kContiguous) {
    return tensor(name, t, shape, types, layout, 0);
  }
  bool output(const char* name, const Tensor& t, Shape shape, DTypes types,
              Layout layout = Layout::kContiguous) {
    return tensor(name, t, shape, types, layout, kRequired | kWritten);
  }
  bool optional_output(const char* name, const Tensor& t, Shape shape, DTypes types,
                       Layout layout = Layout::kContiguous) {
    return tensor(name, t, shape, types, layout, kWritten);
  }

  // One that an asked output needs, or that makes no sense beside others.
  bool needed(const char* name, const Tensor& t, bool is_needed, const char* reason);
  bool absent(const char* name, const Tensor& t, bool is_absent, const char* reason);

  // Memory without a shape. Written memory overlaps nothing.
  void memory(const char* name, const void* data, size_t bytes, bool written);

  bool range(const char* name, int64_t value, int64_t low, int64_t high, const char* where = "");

  // `output` may be exactly `input`: the same address, shape and strides.
  void allow_alias(const char* output, const char* input);

  // Ends the check: no output may share memory with any other argument, but for the allowed
  // aliases.
  Status finish();

 private:
  static constexpr uint32_t kRequired = 1;
  static constexpr uint32_t kWritten = 2;
  static constexpr int32_t kMaxRegions = 32;
  static constexpr int32_t kMaxAliases = 4;

  struct Region {
    const char* name;
    const Tensor* tensor;  // null for plain memory
    uintptr_t begin, end;
    bool written;
  };

  bool tensor(const char* name, const Tensor& t, Shape shape, DTypes types, Layout layout,
              uint32_t flags);
  bool check_shape(const char* name, const Tensor& t, Shape shape);
  bool check_size(const char* name, const Tensor& t);
  bool check_strides(const char* name, const Tensor& t, Shape shape, Layout layout, bool written);
  bool check_data(const char* name, const Tensor& t);
  bool may_alias(const Region& out, const Region& other) const;
  void record(const Region& region);

  const char* operation_;
  Status status_;
  Region regions_[kMaxRegions] = {};
  int32_t region_count_ = 0;
  const char* aliases_[kMaxAliases][2] = {};
  int32_t alias_count_ = 0;
};

}  // namespace mhc
