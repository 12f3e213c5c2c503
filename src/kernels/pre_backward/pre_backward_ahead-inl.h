#pragma once
// The second phase's lines of x, g and du, asked for long before their use. Compiled once per ISA.
//
// A core keeps few misses in flight: lines asked for one by one in the order of use, each in
// another page, come at a third of the memory's rate. Asked for along the runs in which they lie, a
// token's row after the other, they come in the order that the hardware reads ahead, and spread
// between the multiply-adds they take none of their time.

#include "kernels/pre_backward/pre_backward_plan.h"

namespace mhc::MHC_ISA {

// Of a dimension of extent 1 a stride may be anything.
MHC_INLINE int64_t stride_of(const Tensor& tensor, int32_t dimension) {
  return tensor.shape[dimension] > 1 ? tensor.stride[dimension] : 0;
}

// Runs of neighbouring features in every row of x, g and du, token after token.
class LinesAhead {
 public:
  // What a task of the second phase reads.
  MHC_INLINE static LinesAhead of_task(const PreBackwardPlan& plan, const PanelTask& task) {
    const PreBackwardArgs& args = *plan.args;
    LinesAhead ahead(plan, task.first * kPanel, task.last * kPanel);
    for (int64_t i = 0; i < plan.dims.streams; ++i) {
      ahead.add(args.x, i);
      if (args.d_x.present()) {
        ahead.add(args.d_x_next.present() ? args.d_x_next : args.d_x_post, i);
      }
    }
    if (args.d_x.present()) ahead.add(args.d_layer_input, 0);
    const int64_t groups = plan.groups;
    const int64_t block = plan.wave_begin / kTokenBlock;
    ahead.groups_ = groups;
    ahead.end_ = plan.wave_end;
    ahead.go_to((block + (task.group + groups - block % groups) % groups) * kTokenBlock);
    return ahead;
  }

  // What the first phase will read next.
  MHC_INLINE static LinesAhead of_next_tokens(const PreBackwardPlan& plan, const PanelTask& task) {
    const PreBackwardArgs& args = *plan.args;
    LinesAhead ahead(plan, 0, plan.dims.embedding);
    if (args.d_layer_input.present()) {
      for (int64_t i = 0; i < plan.dims.streams; ++i) ahead.add(args.x, i);
      ahead.add(args.d_layer_input, 0);
      ahead.end_ = task.next_end;
    }
    ahead.go_to(task.next_begin);
    return ahead;
  }

  // The next line.
  MHC_INLINE void ask() {
    if (left_ == 0) return;
    prefetch_l2(next_);
    next_ += kLine;
    if (--left_ == 0) next_run();
  }

  // Tokens before t have been used: what was not asked for of them is not any more. At least a few
  // tokens are then on their way.
  MHC_INLINE void keep_before(int64_t t) {
    if (token_ >= t + kLeast || left_ == 0) return;
    if (token_ < t) go_to(t);
    while (token_ < t + kLeast && left_ > 0) ask();
  }

 private:
  static constexpr int64_t kLine = 64;
  static constexpr int64_t kLeast = 8;  // tokens

  MHC_INLINE LinesAhead(const PreBackwardPlan& plan, int64_t begin, int64_t end)
      : begin_(begin), size_(size_of(plan.args->x.dtype)) {
    if (end > plan.dims.embedding) end = plan.dims.embedding;
    lines_ = ceil_div((end - begin) * size_, kLine);
  }
  MHC_INLINE void add(const Tensor& tensor, int64_t stream) {
    if (!tensor.present()) return;
    run_[runs_] = static_cast<const char*>(tensor.data) +
                  ((stream == 0 ? 0 : stream * tensor.stride[1]) + begin_) * size_;
    stride_[runs_++] = stride_of(tensor, 0) * size_;
  }
  MHC_INLINE void go_to(int64_t t) {
    token_ = t;
    current_ = -1;
    next_run();
  }
  MHC_INLINE void next_run() {
    if (++current_ == runs_) {
      current_ = 0;
      if (++token_ % kTokenBlock == 0) token_ += (groups_ - 1) * kTokenBlock;
    }
    left_ = token_ < end_ ? lines_ : 0;
    if (left_ > 0) next_ = run_[current_] + token_ * stride_[current_];
  }

  const char* run_[2 * kMaxStreams + 1];
  int64_t stride_[2 * kMaxStreams + 1];  // bytes from token to token
  int64_t runs_ = 0;
  int64_t lines_;         // of a run
  int64_t begin_, size_;  // its first feature, bytes of one
  int64_t groups_ = 1;    // blocks of other groups are passed over
  int64_t end_ = 0;
  int64_t token_ = 0, current_ = 0, left_ = 0;
  const char* next_ = nullptr;
};

}  // namespace mhc::MHC_ISA
