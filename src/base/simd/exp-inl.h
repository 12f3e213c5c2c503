// exp of a vector, included by each x86 header inside its namespace, hence no #pragma once.
//
//   n = round(x / ln 2), r = x - n ln 2, |r| <= 0.3466, exp(x) = 2^n exp(r)
//   exp(r) = 1 + (r + r^2 q(r)), q of degree 4 by Remez exchange: relative error 3.1e-9
//
// ln 2 = hi + lo with hi rounded to float: x - n hi is exact by cancellation in an FMA, so r has
// one rounding. In ulps of a result below 1: 1/2 of the last sum, 1/4 each of r and of the
// parenthesis, 0.05 of q. The largest error over all floats is 1.009 ulp.
// Clamping keeps n in the range of both ways to scale: exp(89) overflows, exp(-150) is 0.

MHC_INLINE VF exp_of(VF a) {
  const VF x = clamp_keeping_nan(a, -150.0f, 89.0f);
  const VF n = round_to_integer(x * splat(0x1.715476p+0f));
  VF r = fma(n, splat(-0x1.62e43p-1f), x);
  r = fma(n, splat(0x1.05c610p-29f), r);
  VF q = splat(0x1.6a242cp-10f);
  q = fma(q, r, splat(0x1.1239e8p-7f));
  q = fma(q, r, splat(0x1.5558f2p-5f));
  q = fma(q, r, splat(0x1.555492p-3f));
  q = fma(q, r, splat(0x1.fffffcp-2f));
  return scale_by_power(splat(1.0f) + fma(r * r, q, r), n);
}
