// The three steps of pre_backward as one table row. Compiled once per ISA behind a base/simd
// header.

#include "kernels/pre_backward/pre_backward_gates-inl.h"
#include "kernels/pre_backward/pre_backward_panel-inl.h"
#include "kernels/pre_backward/pre_backward_reduce-inl.h"

namespace mhc::MHC_ISA {

template <class T>
constexpr PreBackwardKernel pre_backward_kernel(Isa isa, const char* name) {
  return {isa,
          DTypeOf<T>::value,
          name,
          VF::kLanes,
          MHC_ISA_HAS_DOT != 0,
          backward_gates<T>,
          backward_panels<T>,
          backward_reduce<T>};
}

}  // namespace mhc::MHC_ISA
