#pragma once
// The gates of one token, forward and backward, as the definition has them
// (kernels/common/reference_gates.h), with bounds for every result.
//
// First-order bounds hold while derivatives are nearly constant over the error of the logits,
// delta. Sigmoid, softmax and their normalisations scale by at most exp(2 delta) each when every
// logit moves by delta, and so do their derivatives; Sinkhorn's further steps only contract such
// factors. Bounds are widened by exp(16 delta): by 1 % at an error of 6e-4, which is a large one.

#include <vector>

#include "kernels/common/args.h"
#include "kernels/common/reference_gates.h"
#include "verify/tape.h"

namespace mhc {

// Where the definition itself rounds: what a kernel has there may fall on the other side of a
// boundary.
inline verify::Taped rounded(verify::Taped v, DType type) {
  verify::Tape& tape = verify::Tape::current();
  double bound = 0;
  tape.bounds(&v, 1, &bound);
  const verify::Approximate r = verify::round_to(type, verify::Approximate{v.value, bound});
  return tape.input(r.value, r.error);
}

}  // namespace mhc

namespace mhc::verify {

// Values with bounds; resized by whoever fills them.
struct Bounded {
  std::vector<double> value, bound;
  Bounded() = default;
  explicit Bounded(int64_t count)
      : value(static_cast<size_t>(count), 0.0), bound(static_cast<size_t>(count), 0.0) {}
  Approximate at(int64_t i) const {
    return {value[static_cast<size_t>(i)], bound[static_cast<size_t>(i)]};
  }
  int64_t size() const { return static_cast<int64_t>(value.size()); }
};

class TapedGates {
 public:
  TapedGates(const Spec& spec, GateKind kind, int64_t features, const Tensor& alpha,
             const Tensor& bias, double unit);

  struct Forward {
    Bounded z, inv_rms, h_pre, h_post, h_res;
  };
  // From sums over features.
  Forward forward(const Bounded& q, Approximate sum_squares);

  struct Backward {
    Bounded d_logit, d_q, d_sum_squares;
    Bounded h_pre, h_res;  // recomputed from z
  };
  // d_h_* empty means zero.
  Backward backward(const Bounded& z, Approximate inv_rms, Approximate sum_squares,
                    const Bounded& d_h_pre, const Bounded& d_h_post, const Bounded& d_h_res,
                    bool with_gates);

  const GateLayout& layout() const { return gates_.layout(); }

 private:
  std::vector<Taped> inputs(const Bounded& b);
  void collect(const std::vector<Taped>& taped, double slack, Bounded* out);
  double slack_of(const Bounded& z) const;

  Tape tape_;
  reference::Gates<Taped> gates_;
  std::vector<Taped> alpha_, bias_;
};

}  // namespace mhc::verify
