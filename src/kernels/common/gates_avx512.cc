#include "base/simd/avx512.h"
#include "kernels/common/gates-inl.h"
