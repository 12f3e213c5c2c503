// Conventions mixed up and options dropped, each by the smallest input that shows it.

#include "kernels_faults.h"

namespace mhc::verify {
namespace {

TEST_P(Faults, TransposedMatrix) {
  if (!here_) return;
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    const Buffer x = filled(type, {1, 4, 1}, {1, 2, 3, 4}), y = filled(type, {1, 1}, {0});
    const Buffer h_post = filled(DType::kF32, {1, 4}, {0, 0, 0, 0});
    // Input i goes to output i + 1.
    const Buffer h_res =
        filled(DType::kF32, {1, 4, 4}, {0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0});
    const Buffer x_next(type, {1, 4, 1});
    PostArgs a;
    a.x = x;
    a.layer_output = y;
    a.h_post = h_post;
    a.h_res = h_res;
    a.x_next = x_next;
    ASSERT_TRUE(post(a, runtime_).ok());
    EXPECT_EQ(widen(x_next), (std::vector<double>{4, 1, 2, 3}));
  }
}

TEST_P(Faults, OrderOfSlices) {
  if (!here_) return;
  Coefficients c(spec_of(Unconstrained::id), 3, 5);
  for (int64_t k = 0; k < 24; ++k) c.bias.tensor().store(0.1 * static_cast<double>(k) - 1, k);
  c.run(runtime_);
  for (int64_t t = 0; t < 3; ++t) {
    for (int64_t i = 0; i < 4; ++i) {
      const double pre = sigmoid(0.1 * static_cast<double>(i) - 1),
                   post = sigmoid(0.1 * static_cast<double>(4 + i) - 1);
      EXPECT_NEAR(c.h_pre.tensor().load(t, i), pre + 1e-6, 3e-7);
      EXPECT_NEAR(c.h_post.tensor().load(t, i), 2 * post, 6e-7);
      for (int64_t j = 0; j < 4; ++j) {
        EXPECT_NEAR(c.h_res.tensor().load(t, i, j), 0.1 * static_cast<double>(8 + 4 * i + j) - 1,
                    3e-7);
      }
    }
  }
}

TEST_P(Faults, MeanOverAllFeatures) {
  if (!here_) return;
  Coefficients c(spec_of(Sinkhorn::id), 2, 8);
  c.spec.norm_eps = 0.5;
  c.run(runtime_);
  EXPECT_NEAR(c.inv_rms.tensor().load(1), 1 / std::sqrt(1.5), 2e-7);
  c.spec.norm_form = NormForm::kOutside;
  c.run(runtime_);
  EXPECT_NEAR(c.inv_rms.tensor().load(1), 1 / 1.5, 2e-7);
}

TEST_P(Faults, SeparateEps) {
  if (!here_) return;
  Coefficients c(spec_of(Sinkhorn::id), 2, 8);
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t d = 0; d < 8; ++d) {
      c.x.tensor().store(1e-4, 0, i, d);
      c.x.tensor().store(0, 1, i, d);
    }
  }
  c.spec.norm_eps = 1e-6;
  c.spec.pre_eps = 0.25;
  c.spec.manifold_options.eps = 0.1;
  c.spec.manifold_options.iterations = 1;
  c.run(runtime_);
  EXPECT_NEAR(c.inv_rms.tensor().load(0), 1 / std::sqrt(1e-8 + 1e-6), 2e-4);
  EXPECT_NEAR(c.inv_rms.tensor().load(1), 1000, 2e-4);
  EXPECT_NEAR(c.h_pre.tensor().load(0, 2), 0.75, 2e-7);
  EXPECT_NEAR(c.h_post.tensor().load(0, 2), 1, 2e-7);
  // Uniform logits: 1/4 + .1, over four of them + .1.
  EXPECT_NEAR(c.h_res.tensor().load(0, 1, 2), 0.35 / 1.5, 2e-7);
}

TEST_P(Faults, SinkhornVariant) {
  if (!here_) return;
  const double logits[16] = {0, 1, 2, 3, 1, 0, 0, 0, 0, 0, 2, 0, 3, 0, 0, 1};
  Coefficients c(spec_of(Sinkhorn::id), 1, 3);
  c.spec.manifold_options = {1, 0, 0.1};
  for (int64_t k = 0; k < 16; ++k) c.bias.tensor().store(logits[k], 8 + k);
  c.run(runtime_);
  EXPECT_NEAR(c.h_res.tensor().load(0, 0, 1), 0.20826, 1e-5);
  c.spec.matrix_order = MatrixOrder::kOutputInput;
  c.run(runtime_);
  EXPECT_NEAR(c.h_res.tensor().load(0, 0, 1), 0.30069, 1e-5);
}

TEST_P(Faults, IterationsStreamsAndZeroEps) {
  for (const int32_t iterations : {1, 5}) {
    for (const Op op : {Op::kPre, Op::kPreBackward, Op::kCoefficientsBackward}) {
      Case c;
      c.op = op;
      c.dims = {5, 3, 17};
      c.spec.manifold_options = {iterations, 0, 0};
      c.spec.streams = 3;
      const auto problem = Problem::make(c);
      expect_right(c, problem.get());
    }
  }
}

// Packed phi carries its precision: it is not used as if it had the other one, and the message
// names both.
TEST_P(Faults, PackedForAnotherPrecision) {
  if (!here_) return;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const Precision made : {Precision::kFloat32, Precision::kBFloat16}) {
      for (const Precision used : {Precision::kFloat32, Precision::kBFloat16}) {
        Coefficients c(spec_of(Sinkhorn::id), 3, 37, dtype);
        c.spec.phi_precision = made;
        const Params params{c.phi, {}, {}, {}};
        const size_t bytes = packed_phi_bytes(c.spec, GateKind::kSite, 37, dtype, runtime_);
        const Buffer packed(DType::kF32, {static_cast<int64_t>(bytes / 4)});
        ASSERT_TRUE(pack_phi(c.spec, GateKind::kSite, params, 37, dtype, packed.tensor().data,
                             bytes, runtime_)
                        .ok());
        c.spec.phi_precision = used;
        c.packed_phi = packed.tensor().data;
        c.packed_phi_bytes = bytes;
        const Status status = c.call(runtime_);
        EXPECT_EQ(status.ok(), made == used) << name_of(dtype) << status.message;
        if (status.ok()) continue;
        const std::string message = status.message;
        EXPECT_EQ(message.rfind("pre: packed_phi: expected ", 0), 0u) << message;
        EXPECT_NE(message.find("phi_precision float32"), std::string::npos) << message;
        EXPECT_NE(message.find("phi_precision bfloat16"), std::string::npos) << message;
        for (const double v : widen(c.layer_input)) EXPECT_TRUE(std::isnan(v));
      }
    }
  }
}

TEST_P(Faults, AccumulatingIntoBf16IsRefused) {
  if (!here_) return;
  const Coefficients c(spec_of(Sinkhorn::id), 1, 4);
  const Buffer phi(DType::kBF16, {24, 4, 4}), d_phi(DType::kBF16, {24, 4, 4});
  PreBackwardArgs a;
  a.spec = c.spec;
  a.x = c.x;
  a.params = {phi, c.alpha, c.bias, {}};
  a.z = c.z;
  a.inv_rms = c.inv_rms;
  a.d_phi = d_phi;
  a.accumulate = true;
  const Status status = pre_backward(a, runtime_);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(std::string(status.message).find("d_phi"), std::string::npos) << status.message;
}

// Each of the four terms of d_x by itself, at a K so small that each matters, x along phi.
TEST_P(Faults, DxByItsParts) {
  for (const char* part : {"d_x_next", "d_layer_input", "gates", "all"}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      Case c;
      c.op = Op::kPreBackward;
      c.dims = {3, 4, 4};
      c.dtype = dtype;
      c.outputs = 1;
      c.gate_scale = 2;
      const auto problem = Problem::make(c);
      const Tensor x = problem->input("x"), phi = problem->input("phi"), z = problem->input("z");
      for_each_index(
          x, [&](int64_t t, int64_t i, int64_t d) { x.store(8 * phi.load(t, i, d), t, i, d); });
      for (int64_t t = 0; t < 3; ++t) {  // what forward would have saved
        double squares = 0;
        for (int64_t k = 0; k < 16; ++k)
          squares += x.load(t, k / 4, k % 4) * x.load(t, k / 4, k % 4);
        const double inv_rms = 1 / std::sqrt(squares / 16 + 1e-6);
        problem->input("inv_rms").store(inv_rms, t);
        for (int64_t j = 0; j < 24; ++j) {
          double q = 0;
          for (int64_t k = 0; k < 16; ++k) q += phi.load(j, k / 4, k % 4) * x.load(t, k / 4, k % 4);
          z.store(inv_rms * q, t, j);
        }
      }
      const auto keep = [&](const char* name, bool kept) {
        const Tensor d = problem->input(name);
        if (!kept) for_each_index(d, [&](int64_t i, int64_t j, int64_t k) { d.store(0, i, j, k); });
      };
      const std::string word = part;
      keep("d_x_next", word == "d_x_next" || word == "all");
      keep("d_layer_input", word == "d_layer_input" || word == "all");
      for (const char* name : {"d_h_pre", "d_h_post", "d_h_res"})
        keep(name, word == "gates" || word == "all");
      expect_right(c, problem.get());
    }
  }
}

// With equal streams the mix does not see h_res's rows apart: its logits' gradient is noise, far
// below that of streams that differ.
TEST_P(Faults, EqualStreamsHaveNoResGradient) {
  if (!here_) return;
  double sizes[2] = {};
  for (const bool equal : {false, true}) {
    Case c;
    c.op = Op::kCoefficientsBackward;
    c.dims = {9, 4, 16};
    const auto problem = Problem::make(c);
    const Tensor d = problem->input("d_h_res");
    if (equal) {  // d_h_res[i][j] = sum_d x[i][d] g[j][d] is the same for every i
      for_each_index(d,
                     [&](int64_t t, int64_t i, int64_t j) { d.store(d.load(t, 0, j), t, i, j); });
    }
    problem->changed();
    ASSERT_TRUE(problem->run(runtime_).ok());
    const std::vector<double> d_q = widen(problem->outputs()[0].tensor);
    for (int64_t t = 0; t < 9; ++t) {
      for (int64_t k = 8; k < 24; ++k) {
        sizes[equal] = std::max(sizes[equal], std::fabs(d_q[static_cast<size_t>(24 * t + k)]));
      }
    }
  }
  EXPECT_GT(sizes[0], 0.05);
  EXPECT_LT(sizes[1], 1e-4 * sizes[0]);
}

INSTANTIATE_TEST_SUITE_P(Isas, Faults,
                         testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

}  // namespace
}  // namespace mhc::verify
