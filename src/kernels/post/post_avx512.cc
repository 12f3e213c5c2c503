#include "base/simd/avx512.h"
#include "kernels/post/post-inl.h"
