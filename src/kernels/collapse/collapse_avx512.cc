#include "base/simd/avx512.h"
#include "kernels/collapse/collapse-inl.h"
