#include "base/simd/scalar.h"
#include "kernels/common/gates-inl.h"
