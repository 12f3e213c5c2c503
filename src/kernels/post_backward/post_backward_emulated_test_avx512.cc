#define MHC_EMULATE_BF16_DOT 1
#include "base/simd/avx512bf16.h"
#include "kernels/post_backward/post_backward-inl.h"
