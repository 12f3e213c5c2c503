#include "base/simd/scalar.h"
#include "kernels/post_backward/post_backward-inl.h"
