#include "base/simd/scalar.h"
#define MHC_ROOFLINE_ISA Isa::kScalar
#include "mhc/roofline/roofline-inl.h"
