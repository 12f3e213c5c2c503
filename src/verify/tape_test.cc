#include "verify/tape.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/simd/scalar.h"
#include "manifold/list.h"
#include "manifold/permutation.h"
#include "manifold/sinkhorn.h"
#include "verify/random.h"

namespace mhc::verify {
namespace {

constexpr double kU = 0x1p-24;

double bound_of(Tape* tape, Taped x) {
  double b = 0;
  tape->bounds(&x, 1, &b);
  return b;
}

TEST(Tape, OneOperation) {
  Tape tape(kU);
  const Tape::Use use(&tape);
  const Taped a{3, -1}, b{5, -1};
  EXPECT_NEAR(bound_of(&tape, a * b), 15 * kU, 1e-12 * kU);
  EXPECT_NEAR(bound_of(&tape, a + b), 8 * kU, 1e-12 * kU);
  EXPECT_NEAR(bound_of(&tape, a / b), 0.6 * kU, 1e-12 * kU);
}

TEST(Tape, ErrorsOfInputsTravel) {
  Tape tape(0);
  const Tape::Use use(&tape);
  const Taped a = tape.input(3, 0.1), b = tape.input(5, 0.2);
  EXPECT_NEAR(bound_of(&tape, a * b), 5 * 0.1 + 3 * 0.2, 1e-12);
  EXPECT_NEAR(bound_of(&tape, a / b), 0.1 / 5 + 3 * 0.2 / 25, 1e-12);
  EXPECT_NEAR(bound_of(&tape, exp_of(a)), std::exp(3) * 0.1, 1e-9);
  EXPECT_NEAR(bound_of(&tape, sqrt_of(b)), 0.2 / (2 * std::sqrt(5.0)), 1e-12);
}

// x - x is zero whatever x is off by: a running bound would say 2 * error.
TEST(Tape, CorrelatedErrorsCancel) {
  Tape tape(0);
  const Tape::Use use(&tape);
  const Taped a = tape.input(3, 0.1);
  EXPECT_LT(bound_of(&tape, a - a), 1e-30);
}

TEST(Tape, MoreOutputsThanLanes) {
  Tape tape(kU);
  const Tape::Use use(&tape);
  std::vector<Taped> outputs;
  for (int32_t i = 1; i <= 19; ++i)
    outputs.push_back(Taped{static_cast<double>(i), -1} * Taped{2, -1});
  std::vector<double> bounds(outputs.size());
  tape.bounds(outputs.data(), 19, bounds.data());
  for (size_t i = 0; i < 19; ++i)
    EXPECT_NEAR(bounds[i], 2.0 * static_cast<double>(i + 1) * kU, 1e-30);
}

TEST(Tape, SumInAnyOrder) {
  Tape tape(kU);
  const Tape::Use use(&tape);
  const Taped terms[] = {{4, -1}, {-3, -1}, {1, -1}};
  EXPECT_NEAR(bound_of(&tape, tape.sum(terms, 3, 5)), 5 * kU * 8, 1e-12);
}

// The definition's steps in f32, one number at a time, stay within what the tape allows and use
// some of it; and the bound of forty dependent steps does not explode.
template <class M>
void expect_f32_within_bounds(int64_t n, double spread, double peak) {
  const ManifoldOptions options;
  const int64_t logits = M::logits(n), scratch = M::scratch_size(n, options);
  Random random(seed_of(M::name) + static_cast<uint64_t>(n));
  double largest_share = 0;
  for (int32_t round = 0; round < 40; ++round) {
    Tape tape(kU);
    const Tape::Use use(&tape);
    std::vector<Taped> l(static_cast<size_t>(logits)), g(static_cast<size_t>(n * n)), h(g.size()),
        d_l(l.size());
    std::vector<scalar::VF> lf(l.size()), gf(g.size()), hf(g.size()), d_lf(l.size());
    for (size_t i = 0; i < l.size(); ++i) {
      lf[i].v = static_cast<float>(spread * random.normal() +
                                   (i % static_cast<size_t>(n + 1) == 0 ? peak : 0));
      l[i] = {lf[i].v, -1};
    }
    for (size_t i = 0; i < g.size(); ++i) {
      gf[i].v = static_cast<float>(random.normal());
      g[i] = {gf[i].v, -1};
    }
    std::vector<Taped> work(static_cast<size_t>(scratch));
    std::vector<scalar::VF> work_f(work.size());
    M::forward(n, options, l.data(), h.data(), work.data());
    M::backward(n, options, l.data(), g.data(), d_l.data(), work.data());
    M::forward(n, options, lf.data(), hf.data(), work_f.data());
    M::backward(n, options, lf.data(), gf.data(), d_lf.data(), work_f.data());
    const auto check = [&](const std::vector<Taped>& want, const std::vector<scalar::VF>& got) {
      std::vector<double> bounds(want.size());
      tape.bounds(want.data(), static_cast<int64_t>(want.size()), bounds.data());
      for (size_t i = 0; i < want.size(); ++i) {
        const double error = std::fabs(static_cast<double>(got[i].v) - want[i].value);
        ASSERT_LE(error, bounds[i]) << M::name << " entry " << i;
        largest_share = std::max(largest_share, error / bounds[i]);
        ASSERT_LT(bounds[i], 1e-4) << M::name << " entry " << i << " value " << want[i].value;
      }
    };
    check(h, hf);
    check(d_l, d_lf);
  }
  EXPECT_GT(largest_share, 0.02) << M::name;
}

TEST(Tape, Sinkhorn) {
  for (const int64_t n : {1, 2, 3, 4, 8}) expect_f32_within_bounds<Sinkhorn>(n, 2, 0);
  for (const double peak : {10.0, 40.0}) expect_f32_within_bounds<Sinkhorn>(4, 1, peak);
}

TEST(Tape, Permutation) {
  for (const int64_t n : {2, 3, 4, 5}) expect_f32_within_bounds<Permutation>(n, 2, 0);
}

}  // namespace
}  // namespace mhc::verify
