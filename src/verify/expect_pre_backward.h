#pragma once
// The backward of pre over slices of tokens: d_x comes from each slice, parameter gradients from
// all together.

#include <memory>
#include <vector>

#include "verify/expect.h"
#include "verify/expect_common.h"

namespace mhc::verify {

class PreBackwardExpectation {
 public:
  // Of the whole call; the chain lengths are those of all its tokens.
  PreBackwardExpectation(const PreBackwardArgs& a, bool split_phi);

  // d_x of the slice if it is present (else without a name), and the slice's part of the parameter
  // gradients.
  Expected add(const PreBackwardArgs& slice, const InputErrors& errors = {});
  // Those that were asked for, in the order of outputs_of. Reads what `accumulate` adds to.
  std::vector<Expected> parameters(const PreBackwardArgs& a) const;

 private:
  struct Worker {
    std::unique_ptr<TapedGates> gates;
    ParameterSums phi, alpha, bias;  // phi feature-major: [n D][m]
  };
  struct Token;  // what the gates' backward gives
  Token token_of(const PreBackwardArgs& slice, const InputErrors& errors, int64_t t,
                 Worker* worker) const;
  void add_d_phi(const Token& token, ParameterSums* sums) const;
  void add_d_x(const PreBackwardArgs& slice, const Token& token, int64_t t, Expected* d_x) const;

  GateLayout layout_;
  int64_t tokens_ = 0, features_ = 0, m_ = 0;
  double unit_ = 0;
  FoldedPhi phi_;
  int64_t parts_ = 1;  // of phi in a product
  bool wants_phi_ = false;
  std::vector<Worker> workers_;
};

}  // namespace mhc::verify
