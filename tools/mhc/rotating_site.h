#pragma once
// The tensors of one site in rotating copies, and the operations on them.

#include <cstdint>

#include "base/runtime.h"
#include "base/status.h"
#include "kernels/common/args.h"
#include "mhc/memory.h"
#include "mhc/rotation.h"
#include "mhc/site_problem.h"

namespace mhc::tool {

class RotatingSite {
 public:
  // Filled by `runtime`; what an operation takes from an earlier one is there in every copy.
  RotatingSite(const SiteProblem& problem, const Copies& copies, const Runtime& runtime);

  // The workspace and the packed phi that runs on this runtime need.
  void prepare(const Runtime& runtime);
  // One call on copy `turn`. Throws std::runtime_error when the library refuses it.
  void run(BenchOp op, int64_t turn, const Runtime& runtime);
  // The four in turn; backward takes the copy whose forward was longest ago.
  void run_site(int64_t turn, const Runtime& runtime);

  const SiteProblem& problem() const { return problem_; }

 private:
  Status pre(int64_t turn, const Runtime& runtime);
  Status post(int64_t turn, const Runtime& runtime);
  Status post_backward(int64_t turn, const Runtime& runtime);
  Status pre_backward(int64_t turn, const Runtime& runtime);
  Params params(int64_t turn) const;
  Tensor input(const Rotation& tensors, int64_t turn) const;
  void fill(const Runtime& runtime);

  SiteProblem problem_;
  Rotation x_, x_next_, g_;
  Rotation layer_input_, layer_output_, d_layer_input_, d_layer_output_;
  Rotation z_, inv_rms_, h_post_, h_res_, d_h_post_, d_h_res_;
  Rotation phi_, alpha_, bias_, d_phi_, d_alpha_, d_bias_;
  Rotation packed_;
  Memory workspace_;
};

}  // namespace mhc::tool
