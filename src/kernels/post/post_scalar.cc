#include "base/simd/scalar.h"
#include "kernels/post/post-inl.h"
