#include "base/simd/avx512bf16.h"
#include "kernels/collapse/collapse-inl.h"
