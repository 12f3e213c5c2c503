// Features sharded over two devices against the whole operation, in double, through the argument
// structs: partial projections summed, coefficients from them, and back.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/coefficients/coefficients.h"
#include "kernels/pre/pre.h"
#include "kernels/pre_backward/pre_backward.h"
#include "manifold/list.h"
#include "verify/filled.h"

namespace mhc {
namespace {

using verify::Buffer;
using verify::random_filled;
using verify::widen;
using Values = std::vector<double>;

constexpr DType kType = DType::kF64;
constexpr int64_t kTokens = 5, kStreams = 3, kLocal = 4, kTotal = 2 * kLocal;

// Features of one shard, in place.
Tensor shard_of(const Tensor& t, int64_t shard) {
  Tensor part = t;
  part.shape[2] = kLocal;
  part.data = t.at<double>(0, 0, shard * kLocal);
  return part;
}

Buffer copy_of_shard(const Tensor& t, int64_t shard) {
  return verify::filled(kType, {t.shape[0], t.shape[1], kLocal}, widen(shard_of(t, shard)));
}

void expect_same(const Values& got, const Values& want, const char* name) {
  ASSERT_EQ(got.size(), want.size()) << name;
  for (size_t k = 0; k < got.size(); ++k) EXPECT_NEAR(got[k], want[k], 1e-13) << name << " " << k;
}

class ReferenceSharded : public testing::TestWithParam<std::tuple<NormForm, Precision, GateKind>> {
 protected:
  ReferenceSharded() {
    std::tie(spec_.norm_form, spec_.gradient_precision, kind_) = GetParam();
    spec_.streams = kStreams;
  }

  verify::Random random_{verify::seed_of("ReferenceSharded")};
  Spec spec_;
  GateKind kind_;
};

TEST_P(ReferenceSharded, EqualsTheWhole) {
  const bool site = kind_ == GateKind::kSite;
  const GateLayout layout = gate_layout(spec_, kind_);
  const int64_t m = layout.coefficients();
  const Buffer x = random_filled(kType, {kTokens, kStreams, kTotal}, &random_);
  const Buffer phi = random_filled(kType, {m, kStreams, kTotal}, &random_, 0.5);
  const Buffer alpha = random_filled(kType, {layout.groups()}, &random_, 0.3, 1.0);
  const Buffer bias = random_filled(kType, {m}, &random_);
  const Buffer d_h_pre = random_filled(kType, {kTokens, kStreams}, &random_);
  const Buffer d_h_post = random_filled(kType, {kTokens, kStreams}, &random_);
  const Buffer d_h_res = random_filled(kType, {kTokens, kStreams, kStreams}, &random_);

  // The whole.
  const Buffer z(kType, {kTokens, m}), inv_rms(kType, {kTokens}), h_pre(kType, {kTokens, kStreams});
  const Buffer h_post(kType, {kTokens, kStreams}), h_res(kType, {kTokens, kStreams, kStreams});
  PreArgs pre;
  pre.spec = spec_;
  pre.kind = kind_;
  pre.x = x;
  pre.params = {phi, alpha, bias, {}};
  pre.z = z;
  pre.inv_rms = inv_rms;
  pre.h_pre = h_pre;
  if (site) pre.h_post = h_post;
  if (site) pre.h_res = h_res;
  ASSERT_TRUE(check(pre).ok()) << check(pre).message;
  pre_reference(pre);
  const Buffer d_x(kType, {kTokens, kStreams, kTotal}), d_phi(kType, {m, kStreams, kTotal});
  const Buffer d_alpha(kType, {layout.groups()}), d_bias(kType, {m});
  PreBackwardArgs backward;
  backward.spec = spec_;
  backward.kind = kind_;
  backward.x = x;
  backward.params = {phi, alpha, bias, {}};
  backward.z = z;
  backward.inv_rms = inv_rms;
  backward.d_h_pre = d_h_pre;
  if (site) backward.d_h_post = d_h_post;
  if (site) backward.d_h_res = d_h_res;
  backward.d_x = d_x;
  backward.d_phi = d_phi;
  backward.d_alpha = d_alpha;
  backward.d_bias = d_bias;
  ASSERT_TRUE(check(backward).ok()) << check(backward).message;
  pre_backward_reference(backward);

  // The shards, forward.
  const Buffer q(kType, {kTokens, m}), sum_squares(kType, {kTokens});
  Values q_sum(static_cast<size_t>(kTokens * m)), ss_sum(static_cast<size_t>(kTokens));
  for (int64_t shard = 0; shard < 2; ++shard) {
    const Buffer phi_part = copy_of_shard(phi, shard);
    PreArgs partial;
    partial.operation = "project_partial";
    partial.spec = spec_;
    partial.kind = kind_;
    partial.x = shard_of(x, shard);
    partial.params.phi = phi_part;
    partial.q = q;
    partial.sum_squares = sum_squares;
    ASSERT_TRUE(check(partial).ok()) << check(partial).message;
    pre_reference(partial);
    for (size_t k = 0; k < q_sum.size(); ++k) q_sum[k] += widen(q)[k];
    for (size_t t = 0; t < ss_sum.size(); ++t) ss_sum[t] += widen(sum_squares)[t];
  }
  const Buffer all_q = verify::filled(kType, {kTokens, m}, q_sum);
  const Buffer all_ss = verify::filled(kType, {kTokens}, ss_sum);
  const Buffer z2(kType, {kTokens, m}), inv_rms2(kType, {kTokens});
  const Buffer h_pre2(kType, {kTokens, kStreams}), h_post2(kType, {kTokens, kStreams});
  const Buffer h_res2(kType, {kTokens, kStreams, kStreams});
  CoefficientsArgs coefficients;
  coefficients.spec = spec_;
  coefficients.kind = kind_;
  coefficients.embedding_total = kTotal;
  coefficients.q = all_q;
  coefficients.sum_squares = all_ss;
  coefficients.alpha = alpha;
  coefficients.bias = bias;
  coefficients.z = z2;
  coefficients.inv_rms = inv_rms2;
  coefficients.h_pre = h_pre2;
  if (site) coefficients.h_post = h_post2;
  if (site) coefficients.h_res = h_res2;
  ASSERT_TRUE(check(coefficients).ok()) << check(coefficients).message;
  coefficients_reference(coefficients);
  expect_same(widen(z2), widen(z), "z");
  expect_same(widen(inv_rms2), widen(inv_rms), "inv_rms");
  expect_same(widen(h_pre2), widen(h_pre), "h_pre");
  if (site) expect_same(widen(h_post2), widen(h_post), "h_post");
  if (site) expect_same(widen(h_res2), widen(h_res), "h_res");

  // And back. z as the whole had it: a last bit of difference could round d_q the other way.
  const Buffer d_q(kType, {kTokens, m}), d_ss(kType, {kTokens});
  const Buffer d_alpha2(kType, {layout.groups()}), d_bias2(kType, {m});
  CoefficientsBackwardArgs coefficients_backward;
  coefficients_backward.spec = spec_;
  coefficients_backward.kind = kind_;
  coefficients_backward.embedding_total = kTotal;
  coefficients_backward.z = z;
  coefficients_backward.inv_rms = inv_rms;
  coefficients_backward.sum_squares = all_ss;
  coefficients_backward.alpha = alpha;
  coefficients_backward.bias = bias;
  coefficients_backward.d_h_pre = d_h_pre;
  if (site) coefficients_backward.d_h_post = d_h_post;
  if (site) coefficients_backward.d_h_res = d_h_res;
  coefficients_backward.d_q = d_q;
  coefficients_backward.d_sum_squares = d_ss;
  coefficients_backward.d_alpha = d_alpha2;
  coefficients_backward.d_bias = d_bias2;
  ASSERT_TRUE(check(coefficients_backward).ok()) << check(coefficients_backward).message;
  coefficients_backward_reference(coefficients_backward);
  expect_same(widen(d_alpha2), widen(d_alpha), "d_alpha");
  expect_same(widen(d_bias2), widen(d_bias), "d_bias");
  for (int64_t shard = 0; shard < 2; ++shard) {
    const Buffer phi_part = copy_of_shard(phi, shard);
    const Buffer d_x_part(kType, {kTokens, kStreams, kLocal}),
        d_phi_part(kType, {m, kStreams, kLocal});
    PreBackwardArgs partial;
    partial.operation = "project_partial_backward";
    partial.spec = spec_;
    partial.kind = kind_;
    partial.x = shard_of(x, shard);
    partial.params.phi = phi_part;
    partial.d_q = d_q;
    partial.d_sum_squares = d_ss;
    partial.d_x = d_x_part;
    partial.d_phi = d_phi_part;
    ASSERT_TRUE(check(partial).ok()) << check(partial).message;
    pre_backward_reference(partial);
    expect_same(widen(d_x_part), widen(shard_of(d_x, shard)), "d_x");
    expect_same(widen(d_phi_part), widen(shard_of(d_phi, shard)), "d_phi");
  }
}

INSTANTIATE_TEST_SUITE_P(Specs, ReferenceSharded,
                         testing::Combine(testing::Values(NormForm::kInside, NormForm::kOutside),
                                          testing::Values(Precision::kFloat32,
                                                          Precision::kBFloat16),
                                          testing::Values(GateKind::kSite, GateKind::kHead)));

}  // namespace
}  // namespace mhc
