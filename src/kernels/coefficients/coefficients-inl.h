// Gates from given projections, a block of lanes at a time. Compiled once per ISA behind a
// base/simd header.

#include "kernels/coefficients/coefficients_plan.h"
#include "kernels/common/gates_calls-inl.h"

namespace mhc::MHC_ISA {

inline void coefficients_forward(const CoefficientsArgs& args, const GateParams& gates,
                                 int64_t begin, int64_t end, float* scratch) {
  for (int64_t t = begin; t < end; t += VF::kLanes) {
    const int64_t count = end - t < VF::kLanes ? end - t : VF::kLanes;
    const GateRows out{args.z.at_or_null<float>(t), args.inv_rms.at_or_null<float>(t),
                       args.h_pre.at_or_null<float>(t), args.h_post.at_or_null<float>(t),
                       args.h_res.at_or_null<float>(t)};
    gates_forward(gates, count, args.q.at_or_null<float>(t), gates.coefficients,
                  args.sum_squares.at_or_null<float>(t), out, scratch);
  }
}

inline void coefficients_backward(const CoefficientsBackwardArgs& args, const GateParams& gates,
                                  int64_t begin, int64_t end, float* sums, float* scratch) {
  const int64_t m = gates.coefficients;
  float* norm = scratch;                            // [kLanes], what d_x takes of x
  float* d_q = scratch + round_up(VF::kLanes, 16);  // [kLanes][m], where no one asks for it
  float* work = d_q + round_up(VF::kLanes * m, 16);
  for (int64_t t = begin; t < end; t += VF::kLanes) {
    const int64_t count = end - t < VF::kLanes ? end - t : VF::kLanes;
    const GateCotangents in{
        args.z.at_or_null<float>(t),           args.inv_rms.at_or_null<float>(t),
        args.sum_squares.at_or_null<float>(t), args.d_h_pre.at_or_null<float>(t),
        args.d_h_post.at_or_null<float>(t),    args.d_h_res.at_or_null<float>(t)};
    float* block = sums == nullptr ? nullptr : sums + (t - begin) / VF::kLanes * (m + kMaxGroups);
    const GateGradients out{args.d_q.present() ? args.d_q.at_or_null<float>(t) : d_q,
                            norm,
                            nullptr,
                            nullptr,
                            block,
                            block == nullptr ? nullptr : block + m};
    gates_backward(gates, count, in, out, work);
    if (!args.d_sum_squares.present()) continue;
    // d_x = ... - norm x = ... + 2 d_ss x
    for (int64_t r = 0; r < count; ++r) *args.d_sum_squares.at<float>(t + r) = -0.5f * norm[r];
  }
}

constexpr CoefficientsKernel coefficients_kernel(Isa isa, const char* name) {
  return {isa, DType::kF32, name, VF::kLanes, coefficients_forward, coefficients_backward};
}

}  // namespace mhc::MHC_ISA
