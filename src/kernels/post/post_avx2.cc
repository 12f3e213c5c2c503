#include "base/simd/avx2.h"
#include "kernels/post/post-inl.h"
