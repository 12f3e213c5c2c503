// f32 to bf16 by integer operations, for AVX-512 without BF16; included inside a namespace that has
// defined bits_to_narrow(__m512), the bits to round; no #pragma once.

// The nearest bf16 of each lane in its upper half, to even; the lower half is not cleared. Right
// but for NaNs whose lower half could carry.
MHC_INLINE __m512i round_clean(__m512 a) {
  const __m512i u = bits_to_narrow(a);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  return _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
}
// The same for every value: a NaN keeps its upper bits and becomes quiet.
MHC_INLINE __m512i round_to_upper_half(__m512 a) {
  const __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
  return _mm512_mask_or_epi32(round_clean(a), nan, _mm512_castps_si512(a),
                              _mm512_set1_epi32(0x400000));
}

MHC_INLINE __m256i narrow_bf16(__m512 a) {
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(round_to_upper_half(a), 16));
}

// Interleaved by a shift and a blend, then put in order by one permutation of words.
MHC_INLINE __m512i narrow_bf16(__m512 lo, __m512 hi) {
  alignas(64) static constexpr uint16_t kOrder[32] = {
      0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30,  //
      1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31};
  const __m512i pairs = _mm512_mask_blend_epi16(
      0xaaaaaaaa, _mm512_srli_epi32(round_to_upper_half(lo), 16), round_to_upper_half(hi));
  return _mm512_permutexvar_epi16(_mm512_load_si512(kOrder), pairs);
}

MHC_INLINE __m512i interleave_bf16(__m512 even, __m512 odd) {
  return _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(round_clean(even), 16),
                                 round_clean(odd));
}
