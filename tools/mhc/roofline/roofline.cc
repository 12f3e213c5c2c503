#include "mhc/roofline/roofline.h"

namespace mhc {

#if defined(MHC_HAVE_X86)
namespace avx2 {
extern const tool::RooflineKernel kRoofline;
}
namespace avx512 {
extern const tool::RooflineKernel kRoofline;
}
namespace avx512bf16 {
extern const tool::RooflineKernel kRoofline;
}
#endif
namespace scalar {
extern const tool::RooflineKernel kRoofline;
}

namespace tool {

std::span<const RooflineKernel> roofline_kernels() {
  static const RooflineKernel kRows[] = {
      scalar::kRoofline,
#if defined(MHC_HAVE_X86)
      avx2::kRoofline,
      avx512::kRoofline,
      avx512bf16::kRoofline,
#endif
  };
  return kRows;
}

}  // namespace tool
}  // namespace mhc
