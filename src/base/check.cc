#include "base/check.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "base/overlap.h"
#include "base/text.h"

namespace mhc {
namespace {

using Line = Text<160>;

Line list_of(const int64_t* values, int32_t count) {
  Line line;
  line.add("[");
  for (int32_t i = 0; i < count; ++i)
    line.add("%s%lld", i == 0 ? "" : ", ", static_cast<long long>(values[i]));
  line.add("]");
  return line;
}

Line list_of(Shape shape) {
  Line line;
  line.add("[");
  const char* separator = "";
  for (const Extent& e : shape) {
    const char* relation = !e.free ? "=" : e.size > 0 ? ">=" : "";
    line.add("%s%s%s", separator, e.name, relation);
    if (!e.free || e.size > 0) line.add("%lld", static_cast<long long>(e.size));
    separator = ", ";
  }
  line.add("]");
  return line;
}

Line names_of(DTypes types) {
  Line line;
  int32_t left = __builtin_popcount(types.mask);
  for (int32_t i = 0; i < kDTypes; ++i) {
    const DType t = static_cast<DType>(i);
    if (!types.has(t)) continue;
    --left;
    line.add("%s%s", name_of(t), left > 1 ? ", " : left == 1 ? " or " : "");
  }
  return line;
}

bool printable_rank(const Tensor& t) { return t.rank >= 1 && t.rank <= 3; }

}  // namespace

bool Checker::fail(StatusCode code, const char* argument, const char* format, ...) {
  if (!status_.ok()) return false;
  char formatted[320];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(formatted, sizeof(formatted), format, arguments);
  va_end(arguments);
  status_ = Status::error(code, "%s: %s: %s", operation_, argument, formatted);
  return false;
}

bool Checker::tensor(const char* name, const Tensor& t, Shape shape, DTypes types, Layout layout,
                     uint32_t flags) {
  if (!ok()) return false;
  if (!t.present()) {
    if ((flags & kRequired) == 0) return true;
    return fail(StatusCode::kInvalidArgument, name, "expected shape %s, got no tensor",
                list_of(shape).c_str());
  }
  if (!check_shape(name, t, shape)) return false;
  if (!types.has(t.dtype)) {
    return fail(StatusCode::kInvalidArgument, name, "expected type %s, got %s",
                names_of(types).c_str(), name_of(t.dtype));
  }
  const bool written = (flags & kWritten) != 0;
  if (!check_size(name, t) || !check_strides(name, t, shape, layout, written) ||
      !check_data(name, t)) {
    return false;
  }
  if (t.elements() > 0) {
    const uintptr_t begin = reinterpret_cast<uintptr_t>(t.data);
    record({name, &t, begin, begin + static_cast<uintptr_t>(span_bytes(t)), written});
  }
  return ok();
}

bool Checker::check_shape(const char* name, const Tensor& t, Shape shape) {
  if (!printable_rank(t)) {
    return fail(StatusCode::kInvalidArgument, name, "expected shape %s, got rank %d",
                list_of(shape).c_str(), t.rank);
  }
  bool right = t.rank == static_cast<int32_t>(shape.size());
  for (int32_t i = 0; right && i < t.rank; ++i) {
    const Extent& e = shape.begin()[i];
    right = e.free ? t.shape[i] >= e.size : t.shape[i] == e.size;
  }
  return right || fail(StatusCode::kInvalidArgument, name, "expected shape %s, got %s",
                       list_of(shape).c_str(), list_of(t.shape, t.rank).c_str());
}

// From here on products of extents, strides and the element size fit 63 bits.
bool Checker::check_size(const char* name, const Tensor& t) {
  int64_t elements = size_of(t.dtype);
  int64_t span = size_of(t.dtype);
  bool fits = true;
  bool empty = false;
  for (int32_t i = 0; i < t.rank; ++i) empty = empty || t.shape[i] == 0;
  for (int32_t i = 0; i < t.rank && !empty; ++i) {
    int64_t step = 0;
    const int64_t stride = t.shape[i] == 1 ? 0 : t.stride[i];
    fits = fits && !__builtin_mul_overflow(elements, t.shape[i], &elements);
    fits = fits && !__builtin_mul_overflow(t.shape[i] - 1, stride, &step) &&
           !__builtin_mul_overflow(step, size_of(t.dtype), &step) &&
           !__builtin_add_overflow(span, step, &span);
  }
  const uintptr_t begin = reinterpret_cast<uintptr_t>(t.data);
  fits = fits && (span <= 0 || begin <= UINTPTR_MAX - static_cast<uintptr_t>(span));
  return fits || fail(StatusCode::kInvalidArgument, name,
                      "expected less than 2^63 bytes, got shape %s with strides %s",
                      list_of(t.shape, t.rank).c_str(), list_of(t.stride, t.rank).c_str());
}

bool Checker::check_strides(const char* name, const Tensor& t, Shape shape, Layout layout,
                            bool written) {
  if (t.elements() == 0) return true;
  if (layout == Layout::kContiguous) {
    if (t.contiguous()) return true;
    const Tensor wanted = make_tensor(nullptr, t.dtype, t.rank, t.shape[0], t.shape[1], t.shape[2]);
    return fail(StatusCode::kInvalidArgument, name, "expected contiguous strides %s, got %s",
                list_of(wanted.stride, t.rank).c_str(), list_of(t.stride, t.rank).c_str());
  }
  const int32_t last = t.rank - 1;
  if (t.shape[last] > 1 && t.stride[last] != 1) {
    return fail(StatusCode::kInvalidArgument, name, "expected stride 1 along %s, got strides %s",
                shape.begin()[last].name, list_of(t.stride, t.rank).c_str());
  }
  for (int32_t i = 0; i < last; ++i) {
    if (t.shape[i] > 1 && t.stride[i] < 0) {
      return fail(StatusCode::kInvalidArgument, name, "expected strides of at least 0, got %s",
                  list_of(t.stride, t.rank).c_str());
    }
  }
  return !written || elements_are_distinct(t) ||
         fail(StatusCode::kInvalidArgument, name,
              "expected strides that keep the elements of an output apart, got %s for shape %s",
              list_of(t.stride, t.rank).c_str(), list_of(t.shape, t.rank).c_str());
}

bool Checker::check_data(const char* name, const Tensor& t) {
  if (t.elements() == 0) return true;
  if (t.data == nullptr) {
    return fail(StatusCode::kInvalidArgument, name, "expected data for shape %s, got null",
                list_of(t.shape, t.rank).c_str());
  }
  if (reinterpret_cast<uintptr_t>(t.data) % static_cast<uintptr_t>(size_of(t.dtype)) != 0) {
    return fail(StatusCode::kInvalidArgument, name,
                "expected an address that is a multiple of %lld, the size of %s, got %p",
                static_cast<long long>(size_of(t.dtype)), name_of(t.dtype), t.data);
  }
  return true;
}

bool Checker::needed(const char* name, const Tensor& t, bool is_needed, const char* reason) {
  if (!is_needed || t.present()) return ok();
  return fail(StatusCode::kInvalidArgument, name, "expected a tensor, since %s, got none", reason);
}

bool Checker::absent(const char* name, const Tensor& t, bool is_absent, const char* reason) {
  if (!is_absent || !t.present()) return ok();
  return fail(StatusCode::kInvalidArgument, name, "expected no tensor, since %s, got one", reason);
}

void Checker::memory(const char* name, const void* data, size_t bytes, bool written) {
  if (data == nullptr || bytes == 0) return;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(data);
  if (begin > UINTPTR_MAX - bytes) {
    fail(StatusCode::kInvalidArgument, name, "expected memory that exists, got %zu bytes at %p",
         bytes, data);
    return;
  }
  record({name, nullptr, begin, begin + bytes, written});
}

bool Checker::range(const char* name, int64_t value, int64_t low, int64_t high, const char* where) {
  if (value >= low && value <= high) return ok();
  return fail(StatusCode::kInvalidArgument, name, "expected %lld to %lld%s, got %lld",
              static_cast<long long>(low), static_cast<long long>(high), where,
              static_cast<long long>(value));
}

void Checker::record(const Region& region) {
  if (region_count_ < kMaxRegions) regions_[region_count_++] = region;
}

void Checker::allow_alias(const char* output, const char* input) {
  if (alias_count_ < kMaxAliases) {
    aliases_[alias_count_][0] = output;
    aliases_[alias_count_++][1] = input;
  }
}

bool Checker::may_alias(const Region& out, const Region& other) const {
  for (int32_t i = 0; i < alias_count_; ++i) {
    if (std::strcmp(aliases_[i][0], out.name) == 0 &&
        std::strcmp(aliases_[i][1], other.name) == 0) {
      return true;
    }
  }
  return false;
}

Status Checker::finish() {
  for (int32_t i = 0; i < region_count_ && ok(); ++i) {
    const Region& out = regions_[i];
    if (!out.written) continue;
    for (int32_t k = 0; k < region_count_ && ok(); ++k) {
      const Region& other = regions_[k];
      if (k == i || out.begin >= other.end || other.begin >= out.end) continue;
      if (out.tensor != nullptr && other.tensor != nullptr &&
          rows_are_disjoint(*out.tensor, *other.tensor)) {
        continue;
      }
      const bool allowed = may_alias(out, other);
      if (allowed && same_elements(*out.tensor, *other.tensor)) continue;
      fail(StatusCode::kInvalidArgument, out.name,
           "expected memory apart from %s%s, got [%#zx, %#zx) and [%#zx, %#zx)", other.name,
           allowed ? " or exactly its elements" : "", out.begin, out.end, other.begin, other.end);
    }
  }
  return status_;
}

}  // namespace mhc
