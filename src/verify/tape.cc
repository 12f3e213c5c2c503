#include "verify/tape.h"

#include <algorithm>

namespace mhc::verify {
namespace {

thread_local Tape* current_tape = nullptr;

}  // namespace

Tape::Use::Use(Tape* tape) : outer_(current_tape) { current_tape = tape; }
Tape::Use::~Use() { current_tape = outer_; }
Tape& Tape::current() { return *current_tape; }

Taped Tape::input(double value, double error) { return append(value, {}, 0, {}, 0, error); }

Taped Tape::sum(const Taped* terms, int64_t count, double chain) {
  Taped total;
  double magnitudes = 0;
  for (int64_t i = 0; i < count; ++i) {
    magnitudes += std::fabs(terms[i].value);
    total = append(total.value + terms[i].value, total, 1, terms[i], 1, 0);
  }
  if (count > 0) nodes_.back().added = chain * unit_ * magnitudes + kFlush;
  return total;
}

void Tape::bounds(const Taped* numbers, int64_t count, double* bound) {
  for (int64_t first = 0; first < count; first += kLanes) {
    sweep(numbers + first, std::min(kLanes, count - first), bound + first);
  }
}

void Tape::sweep(const Taped* numbers, int64_t count, double* bound) {
  int32_t last = -1;
  for (int64_t k = 0; k < count; ++k) last = std::max(last, numbers[k].node);
  adjoint_.assign(static_cast<size_t>(last + 1) * kLanes, 0.0);
  double total[kLanes] = {};
  for (int64_t k = 0; k < count; ++k) {
    if (numbers[k].node >= 0) adjoint_[static_cast<size_t>(numbers[k].node * kLanes + k)] = 1;
  }
  for (int32_t at = last; at >= 0; --at) {
    const Node& node = nodes_[static_cast<size_t>(at)];
    const double* own = &adjoint_[static_cast<size_t>(at) * kLanes];
    bool used = false;
    for (int64_t k = 0; k < kLanes; ++k) used |= own[k] != 0;
    if (!used) continue;
    for (int64_t k = 0; k < kLanes; ++k) total[k] += std::fabs(own[k]) * node.added;
    if (node.a >= 0) {
      double* to = &adjoint_[static_cast<size_t>(node.a) * kLanes];
      for (int64_t k = 0; k < kLanes; ++k) to[k] += own[k] * node.d_a;
    }
    if (node.b >= 0) {
      double* to = &adjoint_[static_cast<size_t>(node.b) * kLanes];
      for (int64_t k = 0; k < kLanes; ++k) to[k] += own[k] * node.d_b;
    }
  }
  for (int64_t k = 0; k < count; ++k) bound[k] = total[k];
}

Taped constant(Taped, double c) {
  Tape& tape = Tape::current();
  const bool exact = tape.unit() < 0x1p-40 || static_cast<double>(static_cast<float>(c)) == c;
  return exact ? Taped{c, -1} : tape.input(c, tape.unit() * std::fabs(c));
}

}  // namespace mhc::verify
