#include "base/simd/avx512.h"
#define MHC_ROOFLINE_ISA Isa::kAvx512
#include "mhc/roofline/roofline-inl.h"
