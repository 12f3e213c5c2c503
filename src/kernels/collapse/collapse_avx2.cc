#include "base/simd/avx2.h"
#include "kernels/collapse/collapse-inl.h"
