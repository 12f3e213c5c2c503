#include "base/simd/scalar.h"
#include "kernels/spread/spread-inl.h"
