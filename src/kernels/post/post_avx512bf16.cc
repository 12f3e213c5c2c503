#include "base/simd/avx512bf16.h"
#include "kernels/post/post-inl.h"
