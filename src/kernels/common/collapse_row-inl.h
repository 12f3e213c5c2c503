#pragma once
// out[d] = sum_i h[i] x[i][d] for one token. Compiled once per ISA behind a base/simd header.

namespace mhc::MHC_ISA {

template <class T, int kStreams>
MHC_INLINE void collapse_row_of(const T* x, int64_t stream_stride, int64_t streams, const float* h,
                                int64_t count, T* out) {
  constexpr int64_t kL = VF::kLanes;
  const int64_t n = kStreams > 0 ? kStreams : streams;
  const auto sum = [&](int64_t d, auto... left) {
    VF s = splat(h[0]) * load(x + d, left...);
    MHC_UNROLL for (int64_t i = 1; i < n; ++i) s =
        fma(splat(h[i]), load(x + i * stream_stride + d, left...), s);
    return s;
  };
  int64_t d = 0;
  for (; d + 2 * kL <= count; d += 2 * kL) store(out + d, sum(d), sum(d + kL));
  for (; d < count; d += kL) {
    const int64_t left = count - d < kL ? count - d : kL;
    store(out + d, sum(d, left), left);
  }
}

template <class T>
inline void collapse_row(const T* x, int64_t stream_stride, int64_t streams, const float* h,
                         int64_t count, T* out) {
  switch (streams) {
    case 2:
      return collapse_row_of<T, 2>(x, stream_stride, 2, h, count, out);
    case 4:
      return collapse_row_of<T, 4>(x, stream_stride, 4, h, count, out);
    case 8:
      return collapse_row_of<T, 8>(x, stream_stride, 8, h, count, out);
    default:
      return collapse_row_of<T, 0>(x, stream_stride, streams, h, count, out);
  }
}

}  // namespace mhc::MHC_ISA
