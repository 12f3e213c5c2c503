#include "verify/expected.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "verify/arithmetic.h"
#include "verify/buffer.h"

namespace mhc::verify {
namespace {

std::string list_of(const std::vector<int64_t>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  return text + "]";
}

// Half a step of the type at this value: what one rounding may add.
template <class T>
double rounding(double value) {
  if constexpr (sizeof(T) >= 4) return 0;  // part of the bound
  const double smallest = DTypeOf<T>::value == DType::kF16 ? 0x1p-25 : kFlush;
  return std::max(unit_roundoff(DTypeOf<T>::value) * std::fabs(value), smallest);
}

bool acceptable(DType type, double got, double value, double bound) {
  if (std::isnan(value)) return std::isnan(got);
  if (std::isinf(value)) return !std::isfinite(got);
  if (std::isnan(got)) return false;
  if (!(bound >= 0)) return false;
  if (std::isinf(bound)) return true;
  return round_to(type, value - bound) <= got && got <= round_to(type, value + bound);
}

std::string describe(const Expected& want, DType type, const std::vector<int64_t>& index,
                     double got, double value, double bound) {
  char numbers[200];
  std::snprintf(numbers, sizeof(numbers), ": got %.9g, want %.9g, bound %.3g (error %.3g)", got,
                value, bound, std::fabs(got - value));
  return want.name + " " + name_of(type) + list_of(want.shape) + " at " + list_of(index) + numbers;
}

}  // namespace

Expected::Expected(std::string tensor_name, std::vector<int64_t> tensor_shape)
    : name(std::move(tensor_name)), shape(std::move(tensor_shape)) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  value.assign(static_cast<size_t>(count), 0.0);
  bound.assign(static_cast<size_t>(count), 0.0);
}

double Comparison::cosine() const {
  if (got_norm == 0 && want_norm == 0) return 1;
  return dot / std::sqrt(got_norm * want_norm);
}

void Comparison::merge(const Comparison& other) {
  name = other.name;
  elements += other.elements;
  if (wrong == 0) first_wrong = other.first_wrong;
  wrong += other.wrong;
  largest_error = std::max(largest_error, other.largest_error);
  largest_share = std::max(largest_share, other.largest_share);
  largest_value = std::max(largest_value, other.largest_value);
  dot += other.dot;
  got_norm += other.got_norm;
  want_norm += other.want_norm;
  signed_shares += other.signed_shares;
}

Comparison compare(const Tensor& got, const Expected& want) {
  Comparison result;
  result.name = want.name;
  if (got.elements() != want.elements()) {
    result.wrong = 1;
    result.first_wrong =
        want.name + ": expected " + list_of(want.shape) + ", got another number of elements";
    return result;
  }
  result.elements = want.elements();
  size_t at = 0;
  visit_dtype(got.dtype, [&](auto tag) {
    using T = decltype(tag);
    for_each_index(got, [&](int64_t i, int64_t j, int64_t k) {
      const double value = want.value[at], bound = want.bound[at];
      ++at;
      const double g = to_double(*got.at<T>(i, j, k));
      const double error = std::fabs(g - value);
      if (!acceptable(got.dtype, g, value, bound)) {
        if (result.wrong++ == 0) {
          std::vector<int64_t> index{i, j, k};
          index.resize(static_cast<size_t>(got.rank));
          result.first_wrong = describe(want, got.dtype, index, g, value, bound);
        }
      }
      if (!std::isfinite(error) || !std::isfinite(bound)) return;
      const double allowed = bound + rounding<T>(value);
      result.largest_error = std::max(result.largest_error, error);
      result.largest_value = std::max(result.largest_value, std::fabs(value));
      if (allowed > 0) {
        result.largest_share = std::max(result.largest_share, error / allowed);
        result.signed_shares += (g - value) / allowed;
      }
      result.dot += g * value;
      result.got_norm += g * g;
      result.want_norm += value * value;
    });
  });
  return result;
}

}  // namespace mhc::verify
