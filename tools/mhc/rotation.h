#pragma once
// A tensor in several copies, and how many a measurement needs.

#include <cstdint>
#include <vector>

#include "base/tensor.h"
#include "mhc/memory.h"
#include "mhc/site_problem.h"

namespace mhc::tool {

class Rotation {
 public:
  Rotation() = default;
  Rotation(int64_t copies, DType dtype, std::vector<int64_t> shape);

  Tensor at(int64_t turn) const {
    Tensor t = first_;
    t.data = memory_.data() + turn % copies_ * stride_;
    return t;
  }
  int64_t copies() const { return copies_; }
  int64_t copy_bytes() const { return stride_; }

 private:
  Memory memory_;
  int64_t copies_ = 1;
  int64_t stride_ = 0;  // bytes
  Tensor first_;
};

// Copies of each operation's tensors: enough that twice the last cache lies between two uses of
// one.
struct Copies {
  int64_t of[kBenchOps] = {1, 1, 1, 1};
  bool limited = false;  // memory allows fewer, and something may come from a cache

  int64_t most(std::initializer_list<BenchOp> ops) const;
};
Copies copies_of(const SiteProblem& problem, const std::vector<BenchOp>& ops, int64_t last_cache,
                 int64_t limit_bytes);

// Bytes that a call of the operation touches, and that a site in these copies occupies.
int64_t touched_bytes(const SiteProblem& problem, BenchOp op);
int64_t site_bytes(const SiteProblem& problem, const Copies& copies);

}  // namespace mhc::tool
