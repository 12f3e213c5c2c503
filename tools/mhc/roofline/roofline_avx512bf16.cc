#include "base/simd/avx512bf16.h"
#define MHC_ROOFLINE_ISA Isa::kAvx512Bf16
#include "mhc/roofline/roofline-inl.h"
