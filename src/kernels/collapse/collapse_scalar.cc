#include "base/simd/scalar.h"
#include "kernels/collapse/collapse-inl.h"
