#include "base/simd/avx2.h"
#include "kernels/post_backward/post_backward-inl.h"
