#pragma once
// What all problems share, given the struct of arguments; included by the files that make them.

#include "verify/problem.h"

namespace mhc::verify {

template <class Args>
class ProblemOf : public Problem {
 public:
  std::vector<Expected> expect(bool split_phi) override {
    if constexpr (requires { verify::expect(args_, split_phi); }) {
      return verify::expect(args_, split_phi);
    } else {
      return verify::expect(args_);
    }
  }
  std::vector<Output> outputs() const override { return outputs_of(args_); }

 protected:
  explicit ProblemOf(const Case& c) : Problem(c) {
    case_.spec.streams = c.dims.streams;
    if constexpr (requires { args_.spec; }) args_.spec = case_.spec;
  }
  Args args_;
};

std::unique_ptr<Problem> make_streaming_problem(
    const Case& c);                                        // post, post_backward, collapse, spread
std::unique_ptr<Problem> make_pre_problem(const Case& c);  // pre and its backward
std::unique_ptr<Problem> make_coefficients_problem(const Case& c);  // the coefficients alone

}  // namespace mhc::verify
