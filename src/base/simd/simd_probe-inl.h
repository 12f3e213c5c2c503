// Fills a SimdProbe with the operations of the vector header included before it. Values leave and
// enter vectors by memcpy, not by the loads and stores under test.

#include "base/simd/simd_probe.h"

namespace mhc::MHC_ISA {

MHC_INLINE VF take(const float* p) {
  VF a;
  __builtin_memcpy(&a, p, sizeof(a));
  return a;
}
MHC_INLINE void put(float* p, VF a) { __builtin_memcpy(p, &a, sizeof(a)); }

#define MHC_CASE(name, expression)                                             \
  case SimdOp::name:                                                           \
    for (int64_t i = 0; i < count; i += VF::kLanes) {                          \
      [[maybe_unused]] const VF a = in.a != nullptr ? take(in.a + i) : zero(); \
      [[maybe_unused]] const VF b = in.b != nullptr ? take(in.b + i) : zero(); \
      [[maybe_unused]] const VF c = in.c != nullptr ? take(in.c + i) : zero(); \
      [[maybe_unused]] const VF d = in.d != nullptr ? take(in.d + i) : zero(); \
      put(out + i, expression);                                                \
    }                                                                          \
    break

inline void apply(SimdOp op, const SimdArguments& in, int64_t count, float* out) {
  switch (op) {
    MHC_CASE(kAdd, a + b);
    MHC_CASE(kSubtract, a - b);
    MHC_CASE(kMultiply, a * b);
    MHC_CASE(kDivide, a / b);
    MHC_CASE(kNegate, -a);
    MHC_CASE(kFma, fma(a, b, c));
    MHC_CASE(kAbs, abs_of(a));
    MHC_CASE(kSqrt, sqrt_of(a));
    MHC_CASE(kExp, exp_of(a));
    MHC_CASE(kMax, max_of(a, b));
    MHC_CASE(kSelectGreater, select_greater(a, b, c, d));
    MHC_CASE(kIsFiniteSelect, is_finite_select(a, b, c));
    MHC_CASE(kCleanNan, clean_nan(a));
    MHC_CASE(kRoundF32, round_to<float>(a));
    MHC_CASE(kRoundBf16, round_bf16(a));
    MHC_CASE(kRoundToBf16, round_to<BF16>(a));
    MHC_CASE(kRoundF16, round_to<F16>(a));
    MHC_CASE(kSplat, splat(in.a[i]));
    MHC_CASE(kBroadcast, broadcast(in.a + i));
    MHC_CASE(kConstant, constant(a, static_cast<double>(in.a[i])));
    MHC_CASE(kZero, zero());
  }
}
#undef MHC_CASE

template <class T>
SimdMemory<T> memory_probe() {
  constexpr int64_t kL = VF::kLanes;
  SimdMemory<T> m = {};
  m.load = [](const T* p, float* out) { put(out, load(p)); };
  m.load_part = [](const T* p, int64_t count, float* out) { put(out, load(p, count)); };
  m.store = [](T* p, const float* a) { store(p, take(a)); };
  m.store_part = [](T* p, const float* a, int64_t count) { store(p, take(a), count); };
  m.store_two = [](T* p, const float* a) { store(p, take(a), take(a + kL)); };
  m.stream_two = [](T* p, const float* a) {
    stream(p, take(a), take(a + kL));
    stream_fence();
  };
  m.load_mixed = [](const T* p, float* out) {
    VF a, b;
    load_mixed(p, &a, &b);
    put(out, a);
    put(out + kL, b);
  };
  m.store_mixed = [](T* p, const float* a) { store_mixed(p, take(a), take(a + kL)); };
  m.stream_mixed = [](T* p, const float* a) {
    stream_mixed(p, take(a), take(a + kL));
    stream_fence();
  };
  return m;
}

inline SimdProbe probe_all(const char* name, Isa needs) {
  SimdProbe p = {};
  p.name = name;
  p.needs = needs;
  p.lanes = VF::kLanes;
  p.apply = apply;
  p.f32 = memory_probe<float>();
  p.bf16 = memory_probe<BF16>();
  p.f16 = memory_probe<F16>();
  p.reduce_add = [](const float* a) { return reduce_add(take(a)); };
  return p;
}

}  // namespace mhc::MHC_ISA
