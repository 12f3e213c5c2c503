#include "base/simd/avx512.h"
#include "kernels/spread/spread-inl.h"
