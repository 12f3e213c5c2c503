// Every manifold of the list: stays on itself, and its backward is the derivative of its forward,
// also where one entry dominates.

#include "manifold/manifold.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "base/simd/scalar.h"
#include "manifold/list.h"
#include "manifold/spec.h"
#include "verify/derivative.h"
#include "verify/random.h"

namespace mhc {
namespace {

using verify::Extended;
using Float = scalar::VF;

constexpr int64_t kStreams[] = {1, 2, 3, 4, 5, 8, 16};
constexpr int32_t kIterations[] = {1, 2, 3, 20};

double number(double v) { return v; }
double number(Float v) { return static_cast<double>(v.v); }

template <class V>
V make(double v) {
  if constexpr (std::is_same_v<V, Float>) {
    return Float{static_cast<float>(v)};
  } else {
    return static_cast<V>(v);
  }
}

template <class V>
std::vector<V> convert(const std::vector<double>& in) {
  std::vector<V> out;
  for (const double v : in) out.push_back(make<V>(v));
  return out;
}

template <class M, class V>
std::vector<V> forward_of(int64_t n, const ManifoldOptions& options, const std::vector<V>& logits) {
  std::vector<V> h_res(static_cast<size_t>(n * n));
  std::vector<V> scratch(static_cast<size_t>(M::scratch_size(n, options)));
  M::forward(n, options, logits.data(), h_res.data(), scratch.data());
  return h_res;
}

template <class M, class V>
std::vector<V> backward_of(int64_t n, const ManifoldOptions& options, const std::vector<V>& logits,
                           const std::vector<V>& d_h_res) {
  std::vector<V> d_logits(logits.size());
  std::vector<V> scratch(static_cast<size_t>(M::scratch_size(n, options)));
  M::backward(n, options, logits.data(), d_h_res.data(), d_logits.data(), scratch.data());
  return d_logits;
}

// Values that float holds, so that every number type starts from the same ones.
std::vector<double> floats(verify::Random* random, int64_t size, double scale) {
  std::vector<double> out(static_cast<size_t>(size));
  for (double& v : out) v = static_cast<double>(static_cast<float>(scale * random->normal()));
  return out;
}

template <class V>
double distance(const std::vector<V>& got, const std::vector<Extended>& want) {
  Extended error = 0, norm = 0;
  for (size_t k = 0; k < want.size(); ++k) {
    const Extended e = static_cast<Extended>(number(got[k])) - want[k];
    error += e * e;
    norm += want[k] * want[k];
  }
  EXPECT_GT(norm, 0);
  return static_cast<double>(std::sqrt(error / norm));
}

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

TEST(PermutationTest, LogitsAreInLexicographicOrder) {
  for (int64_t n = 1; n <= Permutation::max_streams; ++n) {
    std::vector<int64_t> image(static_cast<size_t>(n));
    std::iota(image.begin(), image.end(), 0);
    int64_t p = 0;
    do {
      std::vector<double> logits(static_cast<size_t>(Permutation::logits(n)), 0.0);
      logits[static_cast<size_t>(p)] = 1000;  // exp(-1000) is zero
      const auto h = forward_of<Permutation>(n, {}, logits);
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
          EXPECT_EQ(h[static_cast<size_t>(i * n + j)], image[static_cast<size_t>(i)] == j ? 1 : 0)
              << "permutation " << p << " of " << n;
        }
      }
      ++p;
    } while (std::next_permutation(image.begin(), image.end()));
    EXPECT_EQ(p, Permutation::logits(n));
  }
}

template <class M>
void expect_accurate_gradient(int64_t n, const std::vector<double>& logits,
                              const std::vector<double>& d) {
  const ManifoldOptions options;
  const auto want = backward_of<M>(n, options, convert<Extended>(logits), convert<Extended>(d));
  EXPECT_LE(distance(backward_of<M>(n, options, logits, d), want), 1e-13);
  EXPECT_LE(distance(backward_of<M>(n, options, convert<Float>(logits), convert<Float>(d)), want),
            1e-5);
}

// The usual softmax backward loses every digit of f32 at a lead of 20.
TEST(PermutationTest, GradientIsRightWhereOneLeads) {
  verify::Random random(verify::seed_of("GradientIsRightWhereOneLeads"));
  for (int64_t n = 2; n <= Permutation::max_streams; ++n) {
    for (const double lead : {8.0, 12.0, 16.0, 20.0}) {
      for (const bool first : {true, false}) {
        SCOPED_TRACE(testing::Message() << "n " << n << ", lead " << lead << ", first " << first);
        std::vector<double> logits = floats(&random, Permutation::logits(n), 0.125);
        (first ? logits.front() : logits.back()) = lead;
        expect_accurate_gradient<Permutation>(n, logits, floats(&random, n * n, 1.0));
      }
    }
  }
}

TEST(SinkhornTest, GradientIsRightOnPeakedLogits) {
  verify::Random random(verify::seed_of("GradientIsRightOnPeakedLogits"));
  for (const int64_t n : {2, 3, 4, 8, 16}) {
    for (const double peak : {10.0, 20.0, 40.0}) {
      SCOPED_TRACE(testing::Message() << "n " << n << ", peak " << peak);
      std::vector<double> logits(static_cast<size_t>(n * n), 0.0);
      for (int64_t i = 0; i < n; ++i) logits[static_cast<size_t>(i * (n + 1))] = peak;
      expect_accurate_gradient<Sinkhorn>(n, logits, floats(&random, n * n, 1.0));
    }
  }
}

// Tells the published forms apart: others give .21863 or .26920 here, and .30069 when transposed.
TEST(SinkhornTest, KnownValues) {
  const std::vector<double> logits = {0, 1, 2, 3, 1, 0, 0, 0, 0, 0, 2, 0, 3, 0, 0, 1};
  const auto h = forward_of<Sinkhorn>(4, {1, 0, 0.1}, logits);
  EXPECT_NEAR(h[0 * 4 + 1], .208264, 5e-7);
  EXPECT_NEAR(h[1 * 4 + 0], .300695, 5e-7);
  // Equal logits, in full: (1/4 + .1) / (4 (1/4 + .1) + .1)
  for (const double v : forward_of<Sinkhorn>(4, {1, 0, 0.1}, std::vector<double>(16, 7.0))) {
    EXPECT_NEAR(v, .35 / 1.5, 1e-15);
  }
}

// Each column ends with a sum of 1 - eps/d, d its last divisor, whatever the logits. Told from
// outside: with s the sum before the last division, s/(s + eps), and iterating once more divides
// the rows by theirs first.
TEST(SinkhornTest, ColumnsSumToTheirExactValue) {
  verify::Random random(verify::seed_of("ColumnsSumToTheirExactValue"));
  for (const int64_t n : {1, 2, 4, 16}) {
    for (const int32_t iterations : {1, 2, 20}) {
      for (const double eps : {1e-6, 0.1}) {
        const std::vector<double> logits = floats(&random, n * n, 8.0);
        const auto before = forward_of<Sinkhorn>(n, {iterations, 0, eps}, logits);
        const auto after = forward_of<Sinkhorn>(n, {iterations + 1, 0, eps}, logits);
        for (int64_t j = 0; j < n; ++j) {
          double s = 0, sum = 0;
          for (int64_t i = 0; i < n; ++i) {
            double row = eps;
            for (int64_t k = 0; k < n; ++k) row += before[static_cast<size_t>(i * n + k)];
            s += before[static_cast<size_t>(i * n + j)] / row;
            sum += after[static_cast<size_t>(i * n + j)];
          }
          EXPECT_NEAR(sum, s / (s + eps), 1e-13);
        }
      }
    }
  }
}

}  // namespace
}  // namespace mhc
