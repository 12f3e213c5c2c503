#include "base/simd/avx2.h"
#include "kernels/spread/spread-inl.h"
