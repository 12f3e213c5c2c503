// The definition of pre where its conventions show: order and groups of the coefficients, the norm
// over n * D, three separate eps, the orientation of h_res, the rounding of the folded phi, large
// and zero tokens.

#include "kernels/pre/pre_reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "verify/filled.h"
#include "verify/two_workers.h"

namespace mhc {
namespace {

using verify::Buffer;
using verify::filled;
using verify::random_filled;
using verify::widen;
using Values = std::vector<double>;

double sigmoid(double l) { return 1 / (1 + std::exp(-l)); }

Values constant_values(int64_t size, double v) { return Values(static_cast<size_t>(size), v); }

// A problem in one type with all outputs, whose inputs a test fills in.
struct Problem {
  Problem(Spec s, GateKind k, DType type, DType gate, int64_t tokens, int64_t embedding,
          Values x_values, Values phi_values, Values bias_values, DType parameter = DType::kF32)
      : spec(s),
        kind(k),
        m(gate_layout(s, k).coefficients()),
        x(filled(type, {tokens, s.streams, embedding}, x_values)),
        phi(filled(parameter, {m, s.streams, embedding}, phi_values)),
        alpha(filled(parameter, {gate_layout(s, k).groups()},
                     k == GateKind::kSite ? Values{0.5, 1.5, 2} : Values{0.5})),
        bias(filled(parameter, {m}, bias_values)),
        layer_input(type, {tokens, embedding}),
        z(gate, {tokens, m}),
        inv_rms(gate, {tokens}),
        h_pre(gate, {tokens, s.streams}),
        h_post(gate, {tokens, s.streams}),
        h_res(gate, {tokens, s.streams, s.streams}),
        q(gate, {tokens, m}),
        sum_squares(gate, {tokens}) {}

  PreArgs args() const {
    PreArgs a;
    a.spec = spec;
    a.kind = kind;
    a.x = x;
    a.params = {phi, alpha, bias, norm_weight};
    a.layer_input = layer_input;
    a.z = z;
    a.inv_rms = inv_rms;
    a.h_pre = h_pre;
    if (kind == GateKind::kSite) {
      a.h_post = h_post;
      a.h_res = h_res;
    }
    a.q = q;
    a.sum_squares = sum_squares;
    return a;
  }

  Spec spec;
  GateKind kind;
  int64_t m;
  Buffer x, phi, alpha, bias, norm_weight;
  Buffer layer_input, z, inv_rms, h_pre, h_post, h_res, q, sum_squares;
};

Spec unconstrained(int64_t n) {
  Spec spec;
  spec.streams = n;
  spec.manifold = 2;
  return spec;
}

// phi = 0 and every bias different: each gate shows which bias it took, and nothing else.
TEST(PreReference, CoefficientsComeInTheOrderPrePostRes) {
  for (const MatrixOrder order : {MatrixOrder::kInputOutput, MatrixOrder::kOutputInput}) {
    Spec spec = unconstrained(3);
    spec.matrix_order = order;
    Values bias;
    for (int i = 0; i < 15; ++i) bias.push_back(i / 8.0);
    Problem p(spec, GateKind::kSite, DType::kF64, DType::kF64, 1, 2, {1, 2, 3, 4, 5, 6},
              constant_values(15 * 6, 0), bias, DType::kF64);
    pre_reference(p.args());
    for (int i = 0; i < 3; ++i) {
      EXPECT_NEAR(p.h_pre.tensor().load(0, i), sigmoid(i / 8.0) + 1e-6, 1e-15);
      EXPECT_NEAR(p.h_post.tensor().load(0, i), 2 * sigmoid((3 + i) / 8.0), 1e-15);
      for (int j = 0; j < 3; ++j) {
        const int c = order == MatrixOrder::kInputOutput ? 6 + 3 * i + j : 6 + 3 * j + i;
        EXPECT_EQ(p.h_res.tensor().load(0, i, j), c / 8.0);
      }
    }
    const Values h = widen(p.h_pre);
    EXPECT_NEAR(p.layer_input.tensor().load(0, 1), h[0] * 2 + h[1] * 4 + h[2] * 6, 1e-14);
  }
}

TEST(PreReference, EachGroupHasItsAlpha) {
  Problem p(unconstrained(2), GateKind::kSite, DType::kF64, DType::kF64, 1, 1, {3, 4},
            {1, 0, 0, 1, 1, 1, 2, 0, 0, 2, 1, 2, 3, 0, 0, 3}, constant_values(8, 0), DType::kF64);
  pre_reference(p.args());
  EXPECT_EQ(widen(p.q), (Values{3, 4, 7, 6, 8, 11, 9, 12}));
  EXPECT_EQ(widen(p.sum_squares), Values{25});
  const double inv_rms = 1 / std::sqrt(12.5 + 1e-6);
  EXPECT_NEAR(widen(p.inv_rms)[0], inv_rms, 1e-16);
  EXPECT_NEAR(widen(p.h_pre)[1], sigmoid(0.5 * 4 * inv_rms) + 1e-6, 1e-15);
  EXPECT_NEAR(widen(p.h_post)[0], 2 * sigmoid(1.5 * 7 * inv_rms), 1e-15);
  EXPECT_NEAR(widen(p.h_res)[2], 2 * 9 * inv_rms, 1e-15);
}

// The mean is over n * D, and norm_eps stands where norm_form says; a zero token is an ordinary
// one.
TEST(PreReference, NormOverAllFeaturesOfTheToken) {
  for (const NormForm form : {NormForm::kInside, NormForm::kOutside}) {
    Spec spec = unconstrained(4);
    spec.norm_form = form;
    spec.norm_eps = 0.25;
    Values x = constant_values(2 * 32, 1);
    for (int k = 32; k < 64; ++k) x[static_cast<size_t>(k)] = 0;
    Problem p(spec, GateKind::kSite, DType::kF64, DType::kF64, 2, 8, x, constant_values(24 * 32, 1),
              constant_values(24, 0), DType::kF64);
    pre_reference(p.args());
    const bool inside = form == NormForm::kInside;
    EXPECT_NEAR(widen(p.inv_rms)[0], inside ? 1 / std::sqrt(1.25) : 1 / 1.25, 1e-16);
    EXPECT_NEAR(widen(p.z)[0], 32 * widen(p.inv_rms)[0], 1e-13);
    EXPECT_EQ(widen(p.inv_rms)[1], inside ? 2 : 4);
    EXPECT_EQ(p.z.tensor().load(1, 0), 0);
    EXPECT_EQ(p.h_post.tensor().load(1, 0), 1);
  }
}

TEST(PreReference, HeadHasOneAlphaAndPreAlone) {
  Problem p(unconstrained(2), GateKind::kHead, DType::kF64, DType::kF64, 1, 1, {3, 4}, {1, 0, 0, 1},
            {0.25, -0.25}, DType::kF64);
  pre_reference(p.args());
  const double inv_rms = 1 / std::sqrt(12.5 + 1e-6);
  const double h0 = sigmoid(0.5 * 3 * inv_rms + 0.25) + 1e-6;
  const double h1 = sigmoid(0.5 * 4 * inv_rms - 0.25) + 1e-6;
  EXPECT_NEAR(widen(p.layer_input)[0], h0 * 3 + h1 * 4, 1e-14);
}

// phi_precision bfloat16: the product with norm_weight in f32, then one rounding. With two bf16
// factors a rounding of phi first would be no rounding at all; here neither phi nor the product
// fits in bf16.
TEST(PreReference, FoldedPhiIsRoundedOnce) {
  Spec spec = unconstrained(1);
  const double phi = 1 + 0x1p-8 + 0x1p-12, weight = 1 - 0x1p-12;
  for (const Precision precision : {Precision::kFloat32, Precision::kBFloat16}) {
    spec.phi_precision = precision;
    Problem p(spec, GateKind::kSite, DType::kF32, DType::kF32, 1, 1, {1}, {phi, 0, 0}, {0, 0, 0});
    p.norm_weight = filled(DType::kF32, {1, 1}, {weight});
    pre_reference(p.args());
    // phi alone would round up to 1 + 2^-7; the product is a little below 1 + 2^-8, the tie, and
    // rounds down.
    const double want = precision == Precision::kFloat32
                            ? static_cast<double>(static_cast<float>(phi * weight))
                            : 1.0;
    EXPECT_EQ(widen(p.q)[0], want);
  }
}

TEST(PreReference, GateIsRoundedInTheMixAndNotInTheOutput) {
  Spec spec = unconstrained(2);
  spec.h_pre_precision = GatePrecision::kActivation;
  spec.pre_eps = 0x1p-10;  // neither 1/2 + 2^-10 nor 1 + 2^-10 is a bf16
  Problem p(spec, GateKind::kSite, DType::kBF16, DType::kF32, 1, 1, {-2, 1}, constant_values(16, 0),
            {0, 1000, 0, 0, 0, 0, 0, 0});
  pre_reference(p.args());
  EXPECT_EQ(widen(p.h_pre), (Values{0.5 + 0x1p-10, 1 + 0x1p-10}));
  EXPECT_EQ(widen(p.layer_input)[0], 0);
  p.spec.h_pre_precision = GatePrecision::kFloat32;
  pre_reference(p.args());
  EXPECT_EQ(widen(p.layer_input)[0], -0x1p-10);
}

// The square of 2e19 is beyond f32.
TEST(PreReference, LargeTokenIsRight) {
  Problem p(unconstrained(1), GateKind::kSite, DType::kF32, DType::kF32, 1, 1, {2e19}, {1, 1, 1},
            {0, 0, 0});
  pre_reference(p.args());
  EXPECT_NEAR(widen(p.z)[0], 1, 1e-6);
  EXPECT_NEAR(widen(p.h_post)[0], 2 * sigmoid(1.5), 1e-6);
}

// The square of 2e160 is beyond f64 as well: NaN, not the gates of inv_rms = 0.
TEST(PreReference, TokenTooLargeForDoubleIsNan) {
  Problem p(unconstrained(1), GateKind::kSite, DType::kF64, DType::kF64, 2, 1, {2e160, 1},
            {1, 1, 1}, {0, 0, 0});
  pre_reference(p.args());
  for (const Buffer* b : {&p.layer_input, &p.z, &p.inv_rms, &p.h_pre, &p.h_post, &p.h_res}) {
    const size_t row = widen(*b).size() / 2;
    EXPECT_TRUE(std::isnan(widen(*b)[0]));
    EXPECT_FALSE(std::isnan(widen(*b)[row]));
  }
}

TEST(PreReference, NanStaysInItsToken) {
  Problem p(unconstrained(1), GateKind::kSite, DType::kF32, DType::kF32, 3, 1, {1, NAN, 1},
            {1, 1, 1}, {0, 0, 0});
  pre_reference(p.args());
  for (const Buffer* b : {&p.layer_input, &p.inv_rms, &p.h_pre, &p.h_post}) {
    EXPECT_FALSE(std::isnan(widen(*b)[0]));
    EXPECT_TRUE(std::isnan(widen(*b)[1]));
    EXPECT_FALSE(std::isnan(widen(*b)[2]));
  }
}

// Every output is optional, project_partial has no gates at all, and bits depend on neither strides
// nor threads nor the other tokens.
TEST(PreReference, AnySubsetOfOutputsStridesAndThreads) {
  verify::Random random(verify::seed_of("AnySubsetOfOutputsStridesAndThreads"));
  Spec spec;
  spec.streams = 3;
  const int64_t tokens = 37, embedding = 11, m = 15;
  const auto values = [&](int64_t size) {
    Values v(static_cast<size_t>(size));
    for (double& e : v) e = random.normal();
    return v;
  };
  Problem p(spec, GateKind::kSite, DType::kBF16, DType::kF32, tokens, embedding,
            values(tokens * 33), values(m * 33), values(m));
  p.norm_weight = random_filled(DType::kBF16, {3, 11}, &random, 0.2, 1.0);
  pre_reference(p.args());

  Buffer x(DType::kBF16, {tokens, 3, embedding}, verify::Placement::kPageEnd, {1, 4});
  x.copy_from(p.x);
  const Buffer layer_input(DType::kBF16, {tokens, embedding}, verify::Placement::kShifted, {3, 0});
  const Buffer h_res(DType::kF32, {tokens, 3, 3}), q(DType::kF32, {tokens, m});
  PreArgs args;
  args.spec = spec;
  args.x = x;
  args.params = {p.phi, p.alpha, p.bias, p.norm_weight};
  args.layer_input = layer_input;
  args.h_res = h_res;
  pre_reference(args, verify::two_workers());
  EXPECT_TRUE(layer_input.same_bits(p.layer_input));
  EXPECT_TRUE(h_res.same_bits(p.h_res));
  EXPECT_EQ(layer_input.damage(), "");

  args.params.alpha = args.params.bias = args.layer_input = args.h_res = Tensor{};
  args.q = q;
  pre_reference(args);
  EXPECT_TRUE(q.same_bits(p.q));

  PreArgs one = p.args();
  one.x = verify::tokens_of(p.x, 20, 1);
  const Buffer alone(DType::kF32, {1, 3, 3});
  one.h_res = alone;
  one.layer_input = one.z = one.inv_rms = one.h_pre = one.h_post = one.q = one.sum_squares =
      Tensor{};
  pre_reference(one);
  EXPECT_EQ(widen(alone.tensor()), widen(verify::tokens_of(p.h_res, 20, 1)));
}

TEST(PreReference, NoTokens) {
  Problem p(unconstrained(2), GateKind::kSite, DType::kF32, DType::kF32, 0, 3, {},
            constant_values(48, 1), constant_values(8, 0));
  pre_reference(p.args());
}

}  // namespace
}  // namespace mhc
