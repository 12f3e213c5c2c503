#include "base/simd/avx2.h"
#include "kernels/common/gates-inl.h"
