// Every manifold of the list: stays on itself, and its backward is the derivative of its forward,
// also where one entry dominates.

#include "manifold/manifold_test.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "manifold/list.h"
#include "manifold/spec.h"
#include "verify/derivative.h"
#include "verify/random.h"

namespace mhc {
namespace {

using namespace manifold_test;  // NOLINT(google-build-using-namespace)

constexpr int64_t kStreams[] = {1, 2, 3, 4, 5, 8, 16};
constexpr int32_t kIterations[] = {1, 2, 3, 20};

template <class List>
struct AsTypes;
template <class... Ms>
struct AsTypes<TypeList<Ms...>> {
  using Type = testing::Types<Ms...>;
};
struct Names {
  template <class M>
  static std::string GetName(int) {
    return M::name;
  }
};

template <class M>
class ManifoldTest : public testing::Test {
 protected:
  verify::Random random_{verify::seed_of(M::name)};

  template <class F>
  static void for_each_case(const F& f) {
    for (const int64_t n : kStreams) {
      for (const int32_t iterations : kIterations) {
        for (const double eps : {1e-6, 0.1}) {
          if (n <= M::max_streams) f(n, ManifoldOptions{iterations, 0, eps});
        }
      }
    }
  }
};
TYPED_TEST_SUITE(ManifoldTest, typename AsTypes<Manifolds>::Type, Names);

TYPED_TEST(ManifoldTest, IsFoundByNameAndId) {
  const ManifoldInfo* info = find_manifold(TypeParam::name);
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->id, TypeParam::id);
  EXPECT_EQ(find_manifold(TypeParam::id), info);
  EXPECT_EQ(info->logits(4), TypeParam::logits(4));
  EXPECT_EQ(find_manifold("none"), nullptr);
  EXPECT_EQ(find_manifold(-1), nullptr);
}

template <class M, class V>
void expect_on_manifold(int64_t n, const ManifoldOptions& options,
                        const std::vector<double>& logits) {
  const std::vector<V> h = forward_of<M, V>(n, options, convert<V>(logits));
  const double tolerance = M::marginal_tolerance(n, options);
  for (int64_t a = 0; a < n; ++a) {
    double row = 0, column = 0;
    for (int64_t b = 0; b < n; ++b) {
      row += number(h[static_cast<size_t>(a * n + b)]);
      column += number(h[static_cast<size_t>(b * n + a)]);
      if (M::marginals.non_negative) {
        EXPECT_GE(number(h[static_cast<size_t>(a * n + b)]), 0);
      }
    }
    if (M::marginals.rows) {
      EXPECT_NEAR(row, 1, tolerance) << "row " << a << " of " << n;
    }
    if (M::marginals.columns) {
      EXPECT_NEAR(column, 1, tolerance) << "column " << a << " of " << n;
    }
  }
}

// Logits within 1/2 of zero: a softmax entry is then at least 1/(1 + (n-1) e), and each sum of n of
// them at least 1/n, as marginal_tolerance supposes.
TYPED_TEST(ManifoldTest, StaysOnTheManifold) {
  this->for_each_case([&](int64_t n, const ManifoldOptions& options) {
    std::vector<double> logits = floats(&this->random_, TypeParam::logits(n), 1.0);
    for (double& l : logits) l = std::fmod(l, 0.5);
    expect_on_manifold<TypeParam, double>(n, options, logits);
    expect_on_manifold<TypeParam, Float>(n, options, logits);
  });
}

TYPED_TEST(ManifoldTest, BackwardIsTheDerivativeOfForward) {
  this->for_each_case([&](int64_t n, const ManifoldOptions& options) {
    if (TypeParam::logits(n) == 0) return;
    for (const double scale : {1.0, 4.0}) {
      const verify::Arrays<Extended> inputs = {
          convert<Extended>(floats(&this->random_, TypeParam::logits(n), scale))};
      const verify::Arrays<Extended> cotangents = {
          convert<Extended>(floats(&this->random_, n * n, 1.0))};
      const verify::Arrays<Extended> gradients = {
          backward_of<TypeParam, Extended>(n, options, inputs[0], cotangents[0])};
      SCOPED_TRACE(testing::Message() << "n " << n << ", iterations " << options.iterations
                                      << ", eps " << options.eps << ", scale " << scale);
      verify::expect_derivative(
          [&](const auto& in) {
            using Real = typename std::decay_t<decltype(in[0])>::value_type;
            return verify::Arrays<Real>{forward_of<TypeParam, Real>(n, options, in[0])};
          },
          {inputs, cotangents, gradients, {"logits"}}, &this->random_);
    }
  });
}

// The bounds are on the relative error of the whole gradient: float loses about 2^-24 per step
// along its chain of up to 80 (and |logit| 2^-24 in the exponent), double 2^-53.
TYPED_TEST(ManifoldTest, NarrowTypesAgreeWithExtendedPrecision) {
  this->for_each_case([&](int64_t n, const ManifoldOptions& options) {
    if (TypeParam::logits(n) == 0 || n == 1) return;
    for (const double scale : {1.0, 4.0}) {
      const std::vector<double> logits = floats(&this->random_, TypeParam::logits(n), scale);
      const std::vector<double> d = floats(&this->random_, n * n, 1.0);
      const auto want =
          backward_of<TypeParam>(n, options, convert<Extended>(logits), convert<Extended>(d));
      SCOPED_TRACE(testing::Message() << "n " << n << ", iterations " << options.iterations
                                      << ", eps " << options.eps << ", scale " << scale);
      EXPECT_LE(distance(backward_of<TypeParam>(n, options, logits, d), want), 1e-13);
      EXPECT_LE(
          distance(backward_of<TypeParam>(n, options, convert<Float>(logits), convert<Float>(d)),
                   want),
          1e-5);
    }
  });
}

TYPED_TEST(ManifoldTest, HugeLogitsAndCotangentsStayFinite) {
  for (const int64_t n : {int64_t{2}, int64_t{4}}) {
    for (const double size : {100.0, 1e4}) {
      const ManifoldOptions options;
      std::vector<double> logits = floats(&this->random_, TypeParam::logits(n), 1.0);
      for (double& l : logits) l = l > 0 ? size : -size;
      const auto d = convert<Float>(floats(&this->random_, n * n, 1e8));
      for (const Float v : forward_of<TypeParam>(n, options, convert<Float>(logits))) {
        EXPECT_TRUE(std::isfinite(v.v));
      }
      for (const Float v : backward_of<TypeParam>(n, options, convert<Float>(logits), d)) {
        EXPECT_TRUE(std::isfinite(v.v));
      }
    }
  }
}

TYPED_TEST(ManifoldTest, NanLogitIsSeen) {
  const int64_t count = TypeParam::logits(4);
  for (int64_t where = 0; where < count; ++where) {
    std::vector<Float> logits(static_cast<size_t>(count), Float{0.5f});
    logits[static_cast<size_t>(where)] = Float{std::nanf("")};
    bool seen = false;
    for (const Float v : forward_of<TypeParam>(4, ManifoldOptions{}, logits)) {
      seen = seen || std::isnan(v.v);
    }
    EXPECT_TRUE(seen) << "logit " << where;
  }
}

}  // namespace
}  // namespace mhc
