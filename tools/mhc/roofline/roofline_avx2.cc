#include "base/simd/avx2.h"
#define MHC_ROOFLINE_ISA Isa::kAvx2
#include "mhc/roofline/roofline-inl.h"
