// The bounds have teeth: what a kernel gives that drops a term, a tail, a block, a token or a
// stream is outside of them.
//
// The fault is planted in the definition: it runs on inputs in which what a faulty kernel would
// leave out is zero, and its exact results are held against the expectation for the true inputs.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "manifold/permutation.h"
#include "verify/problem.h"

namespace mhc::verify {
namespace {

using Fault = std::function<void(const Problem&)>;

bool caught(const Case& c, const Fault& fault) {
  const auto problem = Problem::make(c);
  const bool split = c.dtype == DType::kBF16 && c.spec.phi_precision == Precision::kFloat32;
  const std::vector<Expected> expected = problem->expect(split);
  fault(*problem);
  problem->changed();
  problem->run_reference();
  const std::vector<Output> outputs = problem->outputs();
  bool right = true;
  for (size_t i = 0; i < outputs.size(); ++i)
    right = right && compare(outputs[i].tensor, expected[i]).ok();
  return !right;
}

// Zeroes all elements whose indices satisfy the predicate.
template <class F>
Fault zero(const char* input, const F& where) {
  return [=](const Problem& p) {
    const Tensor t = p.input(input);
    ASSERT_TRUE(t.present()) << input;
    for_each_index(t, [&](int64_t i, int64_t j, int64_t k) {
      if (where(i, j, k)) t.store(0, i, j, k);
    });
  };
}

// One element, of at least the usual size.
Fault zero_one(const char* input, uint64_t seed) {
  return [=](const Problem& p) {
    const Tensor t = p.input(input);
    ASSERT_TRUE(t.present()) << input;
    double sum = 0;
    for (const double v : widen(t)) sum += std::fabs(v);
    const double usual = sum / static_cast<double>(t.elements());
    Random random(seed);
    for (;;) {
      const int64_t i = random.below(t.shape[0]), j = random.below(t.shape[1]);
      const int64_t k = t.rank > 2 ? random.below(t.shape[2]) : 0;
      if (std::fabs(t.load(i, j, k)) < usual) continue;
      return t.store(0, i, j, k);
    }
  };
}

class Teeth : public testing::TestWithParam<DType> {
 protected:
  Case make(Op op, Dims dims) const {
    Case c;
    c.op = op;
    c.dims = dims;
    c.dtype = GetParam();
    c.spec.manifold = Permutation::id;
    c.seed = seed_of(testing::UnitTest::GetInstance()->current_test_info()->name());
    return c;
  }
  static constexpr Dims kSmall{5, 4, 256};  // K = 1024
};

TEST_P(Teeth, NothingIsCaughtWhereNothingIsWrong) {
  for (int32_t op = 0; op < kOps; ++op) {
    EXPECT_FALSE(caught(make(static_cast<Op>(op), kSmall), [](const Problem&) {}))
        << name_of(static_cast<Op>(op));
  }
}

TEST_P(Teeth, OneTerm) {
  struct Place {
    Op op;
    const char* input;
    uint32_t outputs;
  };
  const Place places[] = {
      {Op::kPost, "x", ~0u},
      {Op::kPost, "layer_output", ~0u},
      {Op::kCollapse, "x", ~0u},
      {Op::kSpread, "x", 2},
      {Op::kPostBackward, "d_x_next", 1},
      {Op::kPostBackward, "layer_output", 2},
      {Op::kPostBackward, "x", 4},
      {Op::kPre, "phi", 0x40},            // q
      {Op::kPre, "phi", 0x02},            // z
      {Op::kPreBackward, "x", 2},         // d_phi
      {Op::kPreBackward, "d_x_next", 1},  // d_x
      {Op::kPreBackward, "d_layer_input", 1},
  };
  for (const Place& place : places) {
    Case c = make(place.op, kSmall);
    c.outputs = place.outputs;
    for (uint64_t seed = 0; seed < 12; ++seed) {
      EXPECT_TRUE(caught(c, zero_one(place.input, seed)))
          << name_of(place.op) << " without one term of " << place.input << ", seed " << seed;
    }
  }
}

// d_x is a sum of m + n + 2 terms: phi's share of it.
TEST_P(Teeth, OneTermOfDxThroughPhi) {
  Case c = make(Op::kPreBackward, {3, 4, 16});
  c.outputs = 1;
  for (uint64_t seed = 0; seed < 12; ++seed) EXPECT_TRUE(caught(c, zero_one("phi", seed))) << seed;
}

// The norm's term of d_x goes with d_sum_squares, which only the partial form takes from outside.
TEST_P(Teeth, NormTerm) {
  Case c = make(Op::kPreBackward, {3, 4, 16});
  c.partial = true;
  c.outputs = 1;
  for (int64_t t = 0; t < 3; ++t) {
    EXPECT_TRUE(
        caught(c, zero("d_sum_squares", [=](int64_t i, int64_t, int64_t) { return i == t; })));
  }
}

TEST_P(Teeth, LastFeature) {
  const auto last = [](int64_t, int64_t, int64_t k) { return k == 1030 - 1; };
  const Dims dims{3, 4, 1030};
  EXPECT_TRUE(caught(make(Op::kPost, dims), zero("x", last)));
  EXPECT_TRUE(caught(make(Op::kPostBackward, dims), zero("x", last)));
  EXPECT_TRUE(caught(make(Op::kCollapse, dims), zero("x", last)));
  EXPECT_TRUE(caught(make(Op::kPre, dims), zero("phi", last)));
  EXPECT_TRUE(caught(make(Op::kPreBackward, dims), zero("phi", last)));
  EXPECT_TRUE(caught(make(Op::kPreBackward, dims), zero("d_x_next", last)));
}

// A block of the sum over features: 512 of 28672 terms.
TEST_P(Teeth, OneBlockOfALongSum) {
  Case c = make(Op::kPre, {1, 4, 7168});
  c.outputs = 0x40;
  for (const int64_t block : {0, 5, 13}) {
    EXPECT_TRUE(caught(
        c, zero("phi", [=](int64_t, int64_t i, int64_t k) { return i == 2 && k / 512 == block; })))
        << block;
  }
}

TEST_P(Teeth, OneTokenOfAParameterSum) {
  for (const int64_t token : {0, 64, 127, 128}) {
    Case c = make(Op::kPreBackward, {129, 4, 33});
    const auto fault = [=](const Problem& p) {
      for (const char* input : {"d_h_pre", "d_h_post", "d_h_res", "d_layer_input"}) {
        zero(input, [=](int64_t t, int64_t, int64_t) { return t == token; })(p);
      }
    };
    for (const uint32_t outputs : {2u, 4u, 8u}) {  // d_phi, d_alpha, d_bias
      c.outputs = outputs;
      EXPECT_TRUE(caught(c, fault)) << token << " outputs " << outputs;
    }
  }
}

TEST_P(Teeth, OneStream) {
  for (int64_t stream = 0; stream < 4; ++stream) {
    const auto of_stream = [=](int64_t, int64_t i, int64_t) { return i == stream; };
    EXPECT_TRUE(caught(make(Op::kPost, kSmall), zero("x", of_stream)));
    EXPECT_TRUE(caught(make(Op::kPre, kSmall), zero("phi", of_stream)));
    EXPECT_TRUE(caught(make(Op::kPreBackward, kSmall), zero("d_x_next", of_stream)));
  }
}

TEST_P(Teeth, TransposedMatrix) {
  const auto transpose = [](const char* name) {
    return [name](const Problem& p) {
      const Tensor t = p.input(name);
      for (int64_t i = 0; i < t.shape[0]; ++i) {
        for (int64_t j = 0; j < t.shape[1]; ++j) {
          for (int64_t k = 0; k < j; ++k) {
            const double a = t.load(i, j, k);
            t.store(t.load(i, k, j), i, j, k);
            t.store(a, i, k, j);
          }
        }
      }
    };
  };
  EXPECT_TRUE(caught(make(Op::kPost, {1, 4, 1}), transpose("h_res")));
  Case eager = make(Op::kPostBackward, {1, 4, 1});
  eager.lazy = false;
  eager.outputs = 8;
  EXPECT_TRUE(caught(eager, transpose("h_res")));
  EXPECT_TRUE(caught(make(Op::kPreBackward, {1, 4, 1}), transpose("d_h_res")));
}

INSTANTIATE_TEST_SUITE_P(Types, Teeth, testing::Values(DType::kF32, DType::kBF16, DType::kF16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

}  // namespace
}  // namespace mhc::verify
