#include "base/simd/avx512.h"
#include "kernels/post_backward/post_backward-inl.h"
