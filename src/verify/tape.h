#pragma once
// How rounding errors travel through formulas with dependent steps (gates, 20 Sinkhorn iterations).
//
// A running bound would multiply at every step. Instead every operation on a Taped number records
// its value, its partial derivatives and the largest error it may add itself (u |value|); one
// reverse sweep per output then gives, to first order,
//
//   |error of the output| <= sum over operations |d output / d result| * (error added by the
//   operation)
//
// so that errors that the formula damps are damped in the bound. Inputs are operations that add
// what the caller says of them.

#include <cmath>
#include <cstdint>
#include <vector>

#include "base/number.h"
#include "verify/arithmetic.h"

namespace mhc::verify {

class Tape;

struct Taped {
  double value = 0;
  int32_t node = -1;  // -1: an exact constant
};

class Tape {
 public:
  explicit Tape(double unit) : unit_(unit) {}
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // While it lives, operations of this thread are recorded on this tape.
  class Use {
   public:
    explicit Use(Tape* tape);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    Tape* outer_;
  };
  static Tape& current();

  void clear() { nodes_.clear(); }
  double unit() const { return unit_; }
  Taped input(double value, double error);
  Taped record(double value, Taped a, double d_a, Taped b, double d_b, double roundings) {
    const double added = roundings * unit_ * std::fabs(value) + kFlush;
    return append(value, a, d_a, b, d_b, roundings == 0 ? 0 : added);
  }
  // A sum in whatever order; terms pass at most `chain` additions.
  Taped sum(const Taped* terms, int64_t count, double chain);

  // The bound of each of `count` numbers.
  void bounds(const Taped* numbers, int64_t count, double* bound);

 private:
  struct Node {
    int32_t a, b;
    double d_a, d_b;
    double added;
  };
  static constexpr int64_t kLanes = 8;  // outputs that share a sweep

  Taped append(double value, Taped a, double d_a, Taped b, double d_b, double added) {
    nodes_.push_back({a.node, b.node, d_a, d_b, added});
    return {value, static_cast<int32_t>(nodes_.size()) - 1};
  }
  void sweep(const Taped* numbers, int64_t count, double* bound);

  double unit_;
  std::vector<Node> nodes_;
  std::vector<double> adjoint_;
};

inline Taped operator+(Taped a, Taped b) {
  return Tape::current().record(a.value + b.value, a, 1, b, 1, 1);
}
inline Taped operator-(Taped a, Taped b) {
  return Tape::current().record(a.value - b.value, a, 1, b, -1, 1);
}
inline Taped operator*(Taped a, Taped b) {
  return Tape::current().record(a.value * b.value, a, b.value, b, a.value, 1);
}
inline Taped operator/(Taped a, Taped b) {
  const double q = a.value / b.value;
  return Tape::current().record(q, a, 1 / b.value, b, -q / b.value, 1);
}
inline Taped operator-(Taped a) { return Tape::current().record(-a.value, a, -1, {}, 0, 0); }

// Rounded to f32 unless it is one; the double path has it exactly.
Taped constant(Taped like, double c);

inline Taped exp_of(Taped a) {
  const double e = std::exp(a.value);
  return Tape::current().record(e, a, e, {}, 0, kExpRoundings);
}
inline Taped sqrt_of(Taped a) {
  const double r = std::sqrt(a.value);
  return Tape::current().record(r, a, r > 0 ? 0.5 / r : 0, {}, 0, 1);
}
inline Taped abs_of(Taped a) {
  return Tape::current().record(std::fabs(a.value), a, a.value < 0 ? -1 : 1, {}, 0, 0);
}
inline Taped select_greater(Taped a, Taped b, Taped x, Taped y) {
  return a.value > b.value ? x : y;
}
inline Taped max_of(Taped a, Taped b) { return b.value > a.value || std::isnan(b.value) ? b : a; }

}  // namespace mhc::verify
