#pragma once
// The second phase's lines of x, g and du, asked for long before their use. Compiled once per ISA.
//
// A core keeps few misses in flight: lines asked for one by one in the order of use, each in
// another page, come at a third of the memory's rate. Asked for along the runs in which they lie,
// a token's row after the other, they come in the order that the hardware reads ahead, and spread
// between the multiply-adds they take none of their time.

#include "kernels/pre_backward/pre_backward_plan.h"

namespace mhc::MHC_ISA {

class LinesAhead {
 public:
  // Of the panels [first, last) for the wave's blocks of one group.
  MHC_INLINE LinesAhead(const PreBackwardPlan& plan, int64_t group, int64_t first, int64_t last)
      : groups_(plan.groups), end_(plan.wave_end) {
    const PreBackwardArgs& args = *plan.args;
    const int64_t size = size_of(args.x.dtype);
    const int64_t begin = first * kPanel;
    const int64_t behind = last * kPanel < plan.dims.embedding ? last * kPanel : plan.dims.embedding;
    lines_ = ceil_div((behind - begin) * size, kLine);
    const auto add = [&](const Tensor& tensor, int64_t offset) {
      if (!tensor.present()) return;
      run_[runs_] = static_cast<const char*>(tensor.data) + (offset + begin) * size;
      stride_[runs_++] = tensor.stride[0] * size;
    };
    const bool mixes = args.d_x.present();
    for (int64_t i = 0; i < plan.dims.streams; ++i) {
      add(args.x, i * args.x.stride[1]);
      if (mixes) add(args.d_x_next, i * args.d_x_next.stride[1]);
    }
    if (mixes) add(args.d_layer_input, 0);
    const int64_t block = plan.wave_begin / kTokenBlock;
    go_to((block + (group + groups_ - block % groups_) % groups_) * kTokenBlock);
  }

  MHC_INLINE void ask() {
    if (line_ == 0) return;
    prefetch_l2(next_);
    next_ += kLine;
    if (--line_ == 0) next_run();
  }

  // Tokens before t have been used: what was not asked for of them is not any more. At least a few
  // tokens are then on their way.
  MHC_INLINE void keep_before(int64_t t) {
    if (token_ >= t + kLeast || line_ == 0) return;
    if (token_ < t) go_to(t);
    while (token_ < t + kLeast && line_ > 0) ask();
  }

 private:
  static constexpr int64_t kLine = 64;
  static constexpr int64_t kLeast = 8;  // tokens

  MHC_INLINE void go_to(int64_t t) {
    token_ = t;
    current_ = -1;
    line_ = 1;
    next_run();
  }
  MHC_INLINE void next_run() {
    if (++current_ == runs_) {
      current_ = 0;
      if (++token_ % kTokenBlock == 0) token_ += (groups_ - 1) * kTokenBlock;
    }
    line_ = token_ < end_ ? lines_ : 0;
    next_ = run_[current_] + token_ * stride_[current_];
  }

  const char* run_[2 * kMaxStreams + 1];
  int64_t stride_[2 * kMaxStreams + 1];  // bytes from token to token
  int64_t runs_ = 0;
  int64_t lines_;  // of a run
  int64_t groups_, end_;
  int64_t token_, current_, line_;
  const char* next_;
};

}  // namespace mhc::MHC_ISA
