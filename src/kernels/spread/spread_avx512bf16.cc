#include "base/simd/avx512bf16.h"
#include "kernels/spread/spread-inl.h"
