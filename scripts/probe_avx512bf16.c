/* Exits with 0 if the processor runs AVX512_BF16, whatever cpuid says; else it dies of SIGILL. */
#include <immintrin.h>

int main(void) {
  const __m512 one = _mm512_set1_ps(1.0f);
  const __m512bh pairs = _mm512_cvtne2ps_pbh(one, one);
  return _mm512_reduce_add_ps(_mm512_dpbf16_ps(one, pairs, pairs)) == 48.0f ? 0 : 1;
}
