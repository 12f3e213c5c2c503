#pragma once
// One whole site, forward and backward, kernel by kernel, against the exact chain of formulas:
// errors of every step are carried into the bounds of the next.

#include <string>
#include <vector>

#include "base/runtime.h"
#include "kernels/common/args.h"
#include "verify/expected.h"

namespace mhc::verify {

struct SiteCase {
  Dims dims{512, 4, 3072};
  DType dtype = DType::kBF16;
  DType param_dtype = DType::kF32;
  Spec spec;  // streams is taken from dims
  uint64_t seed = 1;
};

struct SiteResult {
  std::string problem;  // empty unless a call was refused
  // x_next, d_x, d_layer_output, the ten parameter gradients (d_phi, d_alpha, d_bias by group,
  // d_norm_weight), and then layer_input.
  std::vector<Comparison> tensors;
  static constexpr size_t kPublished = 13;
  bool ok() const;  // every bound holds and every cosine exceeds 0.999
};

// progress(done, total) is called now and then.
SiteResult check_site(const SiteCase& c, const Runtime& runtime,
                      void (*progress)(int64_t done, int64_t total) = nullptr);

}  // namespace mhc::verify
