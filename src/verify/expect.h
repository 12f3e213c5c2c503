#pragma once
// What every operation has to give for given arguments, with elementwise bounds derived from the
// arithmetic.
//
// The formulas are those of the headers in kernels/; the gates are the definition itself
// (reference_gates.h) evaluated on taped numbers. Arguments must have passed check(). Call before
// the operation runs: outputs may overlap inputs, and `accumulate` starts from what is there. One
// Expected per output that is present, in the order of outputs_of.

#include <cstdint>
#include <vector>

#include "kernels/coefficients/coefficients.h"
#include "kernels/collapse/collapse.h"
#include "kernels/post/post.h"
#include "kernels/post_backward/post_backward.h"
#include "kernels/pre/pre.h"
#include "kernels/pre_backward/pre_backward.h"
#include "kernels/spread/spread.h"
#include "verify/expected.h"

namespace mhc::verify {

// How far inputs may be from what they stand for, elementwise and contiguous; null means exact. Set
// where the inputs are another kernel's results and the expectation is that of the exact chain.
struct InputErrors {
  const double* h_post = nullptr;
  const double* h_res = nullptr;
  const double* z = nullptr;
  const double* inv_rms = nullptr;
  const double* d_h_post = nullptr;
  const double* d_h_res = nullptr;
};

struct Output {
  const char* name;
  Tensor tensor;
};
std::vector<Output> outputs_of(const PostArgs& a);
std::vector<Output> outputs_of(const PostBackwardArgs& a);
std::vector<Output> outputs_of(const CollapseArgs& a);
std::vector<Output> outputs_of(const SpreadArgs& a);
std::vector<Output> outputs_of(const PreArgs& a);
std::vector<Output> outputs_of(const CoefficientsArgs& a);
std::vector<Output> outputs_of(const CoefficientsBackwardArgs& a);
std::vector<Output> outputs_of(const PreBackwardArgs& a);

std::vector<Expected> expect(const PostArgs& a, const InputErrors& errors = {});
std::vector<Expected> expect(const PostBackwardArgs& a, const InputErrors& errors = {});
std::vector<Expected> expect(const CollapseArgs& a);
std::vector<Expected> expect(const SpreadArgs& a);
// split_phi: the kernel under test multiplies phi as two bf16 parts.
std::vector<Expected> expect(const PreArgs& a, bool split_phi);
std::vector<Expected> expect(const CoefficientsArgs& a);
std::vector<Expected> expect(const CoefficientsBackwardArgs& a);
std::vector<Expected> expect(const PreBackwardArgs& a, bool split_phi,
                             const InputErrors& errors = {});

// The largest |value| that is finite; 0 when there is none.
double largest_finite(const double* values, int64_t count);

}  // namespace mhc::verify
