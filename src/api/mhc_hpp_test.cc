// The C++ face: types, ownership, and exceptions for everything that the C interface refuses.
// Includes nothing of the library's inside, whose names it shares.

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <mhc/mhc.hpp>
#include <string>
#include <utility>
#include <vector>

#include "api/operation_list_test.h"

namespace {

using mhc::api::make_operation;
using mhc::api::Operation;
using mhc::api::Sizes;

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const mhc::ContractError& error) {
    EXPECT_STREQ(error.what(), mhc_last_error());
    EXPECT_NE(error.status(), MHC_OK);
    return error.what();
  }
  return "";
}

// Calls the C++ function with a copy of the C arguments.
template <class Args, class C, class F>
std::function<void(const Operation&)> through(const F& f) {
  return [f](const Operation& op) {
    const C& from = *static_cast<const C*>(op.args.get());
    if constexpr (requires { from.spec; }) {
      mhc::Spec spec;
      static_cast<mhc_spec&>(spec) = op.spec_value;
      Args args(spec);
      static_cast<C&>(args) = from;
      f(args);
    } else {
      Args args;
      static_cast<C&>(args) = from;
      f(args);
    }
  };
}

#define MHC_THROUGH(name, Args) \
  {#name, through<mhc::Args, mhc_##name##_args>([](const mhc::Args& a) { mhc::name(a); })}

const std::map<std::string, std::function<void(const Operation&)>>& functions() {
  static const std::map<std::string, std::function<void(const Operation&)>> kFunctions = {
      MHC_THROUGH(pre, PreArgs),
      MHC_THROUGH(pre_backward, PreBackwardArgs),
      MHC_THROUGH(post, PostArgs),
      MHC_THROUGH(post_backward, PostBackwardArgs),
      MHC_THROUGH(apply_post, ApplyPostArgs),
      MHC_THROUGH(apply_post_backward, ApplyPostBackwardArgs),
      MHC_THROUGH(coefficients, CoefficientsArgs),
      MHC_THROUGH(coefficients_backward, CoefficientsBackwardArgs),
      MHC_THROUGH(project_partial, ProjectPartialArgs),
      MHC_THROUGH(project_partial_backward, ProjectPartialBackwardArgs),
      MHC_THROUGH(coefficients_from_partials, CoefficientsFromPartialsArgs),
      MHC_THROUGH(coefficients_from_partials_backward, CoefficientsFromPartialsBackwardArgs),
      MHC_THROUGH(apply_pre, ApplyPreArgs),
      MHC_THROUGH(apply_pre_backward, ApplyPreBackwardArgs),
      MHC_THROUGH(head, HeadArgs),
      MHC_THROUGH(head_backward, HeadBackwardArgs),
      MHC_THROUGH(expand, ExpandArgs),
      MHC_THROUGH(expand_backward, ExpandBackwardArgs),
      MHC_THROUGH(reduce, ReduceArgs),
      MHC_THROUGH(reduce_backward, ReduceBackwardArgs),
  };
  return kFunctions;
}

class CxxOperation : public testing::TestWithParam<std::string> {};

TEST_P(CxxOperation, GoodArgumentsPass) {
  const auto op = make_operation(GetParam(), Sizes{});
  EXPECT_EQ(error_of([&] { functions().at(GetParam())(*op); }), "");
  EXPECT_TRUE(op->outputs_written());
}

TEST_P(CxxOperation, BadArgumentsThrowWithTheMessage) {
  const struct {
    const char* wanted;
    void (*spoil)(mhc_tensor*);
  } cases[] = {
      {"expected shape", [](mhc_tensor* t) { t->rank = 9; }},
      {"expected shape", [](mhc_tensor* t) { t->shape[t->rank - 1] = -1; }},
      {"expected type", [](mhc_tensor* t) { t->dtype = 50; }},
      {"expected data", [](mhc_tensor* t) { t->data = nullptr; }},
      {"expected an address", [](mhc_tensor* t) { t->data = static_cast<char*>(t->data) + 1; }},
  };
  const size_t count = make_operation(GetParam(), Sizes{})->arguments.size();
  for (const auto& c : cases) {
    for (size_t i = 0; i < count; ++i) {
      const auto op = make_operation(GetParam(), Sizes{});
      c.spoil(op->arguments[i].tensor);
      const std::string message = error_of([&] { functions().at(GetParam())(*op); });
      EXPECT_EQ(message.rfind(op->name + ": " + op->arguments[i].name + ": " + c.wanted, 0), 0u)
          << message;
      EXPECT_TRUE(op->outputs_untouched());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, CxxOperation, testing::ValuesIn(mhc::api::operation_names()),
                         [](const auto& test) { return test.param; });

TEST(CxxSpec, BeginsAsThePresetAndIsChecked) {
  const mhc::Spec spec;
  EXPECT_EQ(spec.size, sizeof(mhc_spec));
  EXPECT_EQ(spec.streams, 4);
  EXPECT_EQ(spec.manifold, MHC_SINKHORN);
  EXPECT_EQ(spec.logits(), 16);
  EXPECT_EQ(spec.coefficients(), 24);
  EXPECT_EQ(spec.coefficients(MHC_HEAD), 4);
  mhc::Spec lite = mhc::Spec::preset(std::string("maxtext_lite"));
  EXPECT_EQ(lite.coefficients(), 32);
  lite.set_manifold("identity");
  EXPECT_EQ(lite.logits(), 0);
  EXPECT_NE(error_of([] { mhc::Spec::preset("nonsense"); }).find("got \"nonsense\""),
            std::string::npos);
  EXPECT_NE(error_of([&] { lite.set_manifold("nonsense"); }).find("got \"nonsense\""),
            std::string::npos);
  lite.streams = 0;
  EXPECT_NE(error_of([&] { lite.logits(); }).find("spec.streams"), std::string::npos);
}

TEST(CxxTensor, ShapesTypesAndConst) {
  std::vector<float> f(24);
  const std::vector<mhc::BFloat16> b(6);
  const mhc::Tensor t = mhc::tensor(f, {2, 3, 4});
  EXPECT_EQ(t.data, f.data());
  EXPECT_EQ(t.dtype, MHC_F32);
  EXPECT_EQ(t.rank, 3);
  EXPECT_EQ(t.stride[0], 12);
  EXPECT_EQ(t.stride[1], 4);
  EXPECT_EQ(t.stride[2], 1);
  EXPECT_EQ(mhc::tensor(b, {6}).dtype, MHC_BF16);
  EXPECT_EQ(mhc::tensor(static_cast<double*>(nullptr), {0, 4}).dtype, MHC_F64);
  EXPECT_EQ(mhc::tensor(static_cast<const mhc::Float16*>(nullptr), {0, 4}).dtype, MHC_F16);
  EXPECT_EQ(mhc::tensor(f, {2, 3, 4}).stride[0], 12);
  EXPECT_THROW(mhc::tensor(f, {}), mhc::ContractError);
  EXPECT_THROW(mhc::tensor(f, {1, 2, 3, 4}), mhc::ContractError);
}

TEST(CxxRuntime, OwnsMovesAndThrows) {
  mhc::RuntimeOptions options;
  options.num_threads = 2;
  mhc::Runtime first(options);
  EXPECT_EQ(first.workers(), 2);
  const mhc::Runtime second = std::move(first);
  EXPECT_EQ(second.workers(), 2);
  options.isa = "scalar";
  EXPECT_EQ(mhc::Runtime(options).isa(), MHC_ISA_SCALAR);
  options.isa = "mmx";
  EXPECT_NE(error_of([&] { mhc::Runtime r(options); }).find("runtime_create: isa"),
            std::string::npos);
  options.isa = nullptr;
  options.tuning = "/no/such/file";
  try {
    mhc::Runtime r(options);
    ADD_FAILURE();
  } catch (const mhc::ContractError&) {
    ADD_FAILURE() << "a bad file is not the caller's contract";
  } catch (const mhc::Error& error) {
    EXPECT_EQ(error.status(), MHC_BAD_INPUT);
  }
}

// x_next[j] = sum_i h_res[i,j] x[i], with h_res a cycle: a transposed mix would turn it the other
// way.
TEST(CxxOperations, PostMixesInputMajor) {
  const mhc::Spec spec;
  const std::vector<float> x = {1, 2, 3, 4}, layer_output = {10}, h_post = {0, 0, 0, 1};
  std::vector<float> h_res(16), x_next(4);
  for (size_t i = 0; i < 4; ++i) h_res[i * 4 + (i + 1) % 4] = 1;  // stream i goes to i + 1
  mhc::PostArgs args(spec);
  args.x = mhc::tensor(x, {1, 4, 1});
  args.layer_output = mhc::tensor(layer_output, {1, 1});
  args.h_post = mhc::tensor(h_post, {1, 4});
  args.h_res = mhc::tensor(h_res, {1, 4, 4});
  args.x_next = mhc::tensor(x_next, {1, 4, 1});
  mhc::post(args);
  EXPECT_EQ(x_next, (std::vector<float>{4, 1, 2, 13}));
}

// x and x_next as halves of one larger tensor, along streams and along features: neighbours, not an
// overlap.
TEST(CxxOperations, SlicesOfOneTensorAreApart) {
  const mhc::Spec spec;
  constexpr std::int64_t kT = 7, kN = 4, kD = 5;
  const std::vector<float> layer_output(kT * kD, 0.5f), h_post(kT * kN, 0.25f),
      h_res(kT * kN * kN, 0.125f);
  std::vector<float> x(kT * kN * kD), expected(kT * kN * kD);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  mhc::PostArgs args(spec);
  args.x = mhc::tensor(x, {kT, kN, kD});
  args.layer_output = mhc::tensor(layer_output, {kT, kD});
  args.h_post = mhc::tensor(h_post, {kT, kN});
  args.h_res = mhc::tensor(h_res, {kT, kN, kN});
  args.x_next = mhc::tensor(expected, {kT, kN, kD});
  mhc::post(args);

  for (const bool along_features : {false, true}) {
    std::vector<float> both(2 * x.size(), -1.0f);
    args.x.data = both.data();
    args.x_next.data = both.data() + (along_features ? kD : kN * kD);
    args.x.stride[0] = args.x_next.stride[0] = 2 * kN * kD;
    args.x.stride[1] = args.x_next.stride[1] = along_features ? 2 * kD : kD;
    const auto at = [&](const mhc::Tensor& t, std::int64_t i) -> float& {
      return static_cast<float*>(
          t.data)[i / (kN * kD) * t.stride[0] + i / kD % kN * t.stride[1] + i % kD];
    };
    for (std::int64_t i = 0; i < kT * kN * kD; ++i) at(args.x, i) = x[static_cast<std::size_t>(i)];
    EXPECT_EQ(error_of([&] { mhc::post(args); }), "");
    for (std::int64_t i = 0; i < kT * kN * kD; ++i) {
      ASSERT_EQ(at(args.x_next, i), expected[static_cast<std::size_t>(i)]);
      ASSERT_EQ(at(args.x, i), x[static_cast<std::size_t>(i)]);
    }
    args.x_next.data = static_cast<float*>(args.x_next.data) - 1;
    EXPECT_NE(error_of([&] { mhc::post(args); }).find("post: x_next: expected memory apart from x"),
              std::string::npos);
  }
}

TEST(CxxOperations, ExpandAndReduce) {
  const std::vector<float> h = {1, 2, 3};
  std::vector<float> x(6), back(3);
  mhc::ExpandArgs expand;
  expand.streams = 2;
  expand.h = mhc::tensor(h, {1, 3});
  expand.x = mhc::tensor(x, {1, 2, 3});
  mhc::expand(expand);
  EXPECT_EQ(x, (std::vector<float>{1, 2, 3, 1, 2, 3}));
  mhc::ReduceArgs reduce;
  reduce.x = expand.x;
  reduce.out = mhc::tensor(back, {1, 3});
  mhc::reduce(reduce);
  EXPECT_EQ(back, (std::vector<float>{2, 4, 6}));
  reduce.mode = MHC_MEAN;
  mhc::reduce(reduce);
  EXPECT_EQ(back, h);
}

// One Workspace through calls of different sizes and operations, against one sized for each alone;
// packed phi against phi.
TEST(CxxOperations, WorkspaceGrowsAndPackedPhiStandsForPhi) {
  const mhc::Spec spec;
  const std::int64_t m = spec.coefficients();
  mhc::Workspace workspace;
  for (const mhc::Dims d : {mhc::Dims{1, 4, 9}, mhc::Dims{40, 4, 700}, mhc::Dims{3, 4, 20}}) {
    const auto count = [](std::int64_t k) { return static_cast<std::size_t>(k); };
    std::vector<float> x(count(d.tokens * d.streams * d.embedding)),
        phi(count(m * d.streams * d.embedding));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
    for (std::size_t i = 0; i < phi.size(); ++i) phi[i] = static_cast<float>(i % 5) / 16 - 0.1f;
    const std::vector<float> alpha(3, 1.0f), bias(count(m), 0.25f);
    std::vector<float> u(count(d.tokens * d.embedding)), expected(u.size());
    mhc::PreArgs args(spec);
    args.x = mhc::tensor(x, {d.tokens, d.streams, d.embedding});
    args.params.phi = mhc::tensor(phi, {m, d.streams, d.embedding});
    args.params.alpha = mhc::tensor(alpha, {3});
    args.params.bias = mhc::tensor(bias, {m});
    args.layer_input = mhc::tensor(expected, {d.tokens, d.embedding});
    mhc::pre(args, workspace);

    args.layer_input = mhc::tensor(u, {d.tokens, d.embedding});
    const mhc_problem problem = mhc::problem(spec, d, MHC_F32);
    const mhc::PackedPhi packed(problem, args.params.phi);
    args.packed_phi = packed.get();
    args.params.phi = {};
    std::vector<char> own(mhc::workspace_bytes(MHC_OP_PRE, problem));
    args.workspace = {own.data(), own.size()};
    mhc::pre(args);
    EXPECT_EQ(u, expected);
  }
  EXPECT_NE(
      error_of([&] { mhc::pre(mhc::PreArgs(spec), workspace); }).find("pre: x: expected shape"),
      std::string::npos);
}

}  // namespace
