// The same bits for any number of threads, executor, floating-point mode, tuning and batch.

#include <gtest/gtest.h>

#include <memory>

#include "base/pool.h"
#include "manifold/permutation.h"
#include "verify/cases_test.h"
#include "verify/executors.h"
#include "verify/site_memory.h"

namespace mhc::verify {
namespace {

// Shapes with many tasks, with few tokens and many features, and with remainders everywhere.
std::vector<Case> cases() {
  std::vector<Case> all;
  const std::vector<Dims> shapes =
      kSmallTests ? std::vector<Dims>{{37, 4, 129}, {37, 4, 96}, {3, 4, 1030}}
                  : std::vector<Dims>{
                        {300, 4, 129}, {300, 4, 96}, {3, 4, 4097}, {131, 3, 513}, {1, 4, 7168}};
  for (int32_t op = 0; op < kOps; ++op) {
    for (const Dims& dims : shapes) {
      for (const DType dtype : {DType::kBF16, DType::kF32, DType::kF16}) {
        Case c;
        c.op = static_cast<Op>(op);
        c.dims = dims;
        c.dtype = dtype;
        c.norm_weight = true;
        c.lazy = dims.streams == 4;
        c.spec.manifold = dims.streams == 3 ? Permutation::id : 0;
        if (dims.tokens == 131)
          c.spec.gradient_precision = c.spec.phi_precision = Precision::kBFloat16;
        // Aligned rows can be streamed where a table says so.
        c.placement = dims.embedding % 32 == 0 ? Placement::kAligned : Placement::kShifted;
        c.seed = static_cast<uint64_t>(op) + 1;
        all.push_back(c);
        if (dims.tokens != 3) continue;
        c.value_scale = 1e-38;  // flushed or not by the thread's own mode
        all.push_back(c);
      }
    }
  }
  return all;
}

std::vector<uint8_t> bits_on(Problem* problem, const Runtime& runtime) {
  const Status status = problem->run(runtime);
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(problem->damage(), "");
  return problem->bits();
}

class Bitwise : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    ASSERT_EQ(missing_isas(), "");
    for (const Isa isa : available_isas()) present_ = present_ || isa == GetParam();
  }
  // Calls f(runtime) -> the same result as without f, for each case.
  template <class F>
  void for_each_case(const F& f) {
    if (!present_) return;
    for (const Case& c : cases()) {
      const auto problem = Problem::make(c);
      const Runtime runtime = runtime_of(GetParam());
      const std::vector<uint8_t> want = bits_on(problem.get(), runtime);
      f(c, problem.get(), runtime, want);
      if (HasFailure()) return;
    }
  }
  bool present_ = false;
};

TEST_P(Bitwise, ThreadCounts) {
  std::vector<std::unique_ptr<ThreadPool>> pools;
  for (const int32_t threads : {1, 2, 3, 4, 7})
    pools.emplace_back(ThreadPool::create(threads, false));
  for_each_case(
      [&](const Case& c, Problem* problem, Runtime runtime, const std::vector<uint8_t>& want) {
        for (const auto& pool : pools) {
          runtime.executor = pool->executor();
          EXPECT_EQ(bits_on(problem, runtime), want)
              << describe(c) << " on " << pool->workers() << " threads";
        }
      });
}

TEST_P(Bitwise, ExecutorsAndFloatingPointModes) {
  QueuePool queue(3);
  for_each_case(
      [&](const Case& c, Problem* problem, Runtime runtime, const std::vector<uint8_t>& want) {
        runtime.executor = hostile_executor();
        EXPECT_EQ(bits_on(problem, runtime), want) << describe(c) << " on the hostile executor";
        runtime.executor = queue.executor();
        std::vector<uint8_t> got;
        queue.run_handler([&] { got = bits_on(problem, runtime); });
        EXPECT_EQ(got, want) << describe(c) << " on a pool that the caller belongs to";
        for (int32_t again = 0; again < 2; ++again) {
          runtime.executor = serial_executor();
          EXPECT_EQ(bits_on(problem, runtime), want) << describe(c) << " once more";
        }
      });
}

struct FixedTuning {
  Tuning choice;
};
Tuning look_up_fixed(const TuningTable* table, const char*, int64_t, int64_t, int64_t, int32_t,
                     int32_t) {
  return reinterpret_cast<const FixedTuning*>(table)->choice;
}

TEST_P(Bitwise, Tuning) {
  const FixedTuning choices[] = {{{1, 128, 32, 1, 0}},
                                 {{3, 256, 64, 7, 0}},
                                 {{8, 1024, 512, 16, 1 << 30}},
                                 {{64, 128, 96, 33, 0}},
                                 {{256, 4096, 7168, 1000, 1 << 30}},
                                 {{5, 384, 32, 2, -1}}};
  const std::unique_ptr<ThreadPool> pool(ThreadPool::create(3, false));
  for_each_case(
      [&](const Case& c, Problem* problem, Runtime runtime, const std::vector<uint8_t>& want) {
        runtime.executor = pool->executor();
        runtime.lookup = look_up_fixed;
        for (const FixedTuning& choice : choices) {
          runtime.table = reinterpret_cast<const TuningTable*>(&choice);
          EXPECT_EQ(bits_on(problem, runtime), want)
              << describe(c) << " with tiles of " << choice.choice.pre_tile_tokens
              << " tokens, waves of " << choice.choice.backward_wave_tokens;
        }
      });
}

// Row t of a batch is row t alone, in everything that is per token.
TEST_P(Bitwise, Batches) {
  if (!present_) return;
  const Runtime runtime = runtime_of(GetParam());
  const std::unique_ptr<ThreadPool> pool(ThreadPool::create(4, false));
  for (const DType dtype : {DType::kBF16, DType::kF32, DType::kF16}) {
    for (const Precision gradient : {Precision::kFloat32, Precision::kBFloat16}) {
      Spec spec;
      spec.gradient_precision = gradient;
      const Dims dims{kSmallTests ? 37 : 150, 4, 545};
      SiteMemory batch(spec, dims, dtype, DType::kF32, false, 7);
      SiteMemory alone(spec, dims, dtype, DType::kF32, false, 7);
      const auto run = [&](const SiteMemory& m, int64_t begin, int64_t count, const Runtime& on) {
        const Dims part{count, dims.streams, dims.embedding};
        const auto slice = [&](Tensor* t) { *t = tokens_of(*t, begin, count); };
        PreArgs pre_args = m.pre_args(spec);
        PostArgs post_args = m.post_args(spec);
        PostBackwardArgs back = m.post_backward_args(spec);
        PreBackwardArgs last = m.pre_backward_args(spec);
        for (Tensor* t : {&pre_args.x,       &pre_args.layer_input,
                          &pre_args.z,       &pre_args.inv_rms,
                          &pre_args.h_post,  &pre_args.h_res,
                          &post_args.x,      &post_args.layer_output,
                          &post_args.h_post, &post_args.h_res,
                          &post_args.x_next, &back.d_x_next,
                          &back.x,           &back.layer_output,
                          &back.h_post,      &back.d_layer_output,
                          &back.d_h_post,    &back.d_h_res,
                          &last.x,           &last.z,
                          &last.inv_rms,     &last.d_layer_input,
                          &last.d_h_post,    &last.d_h_res,
                          &last.d_x_next,    &last.d_x}) {
          slice(t);
        }
        last.d_phi = last.d_alpha = last.d_bias = {};
        const size_t bytes =
            std::max(pre_workspace_bytes(spec, GateKind::kSite, part, dtype, on),
                     pre_backward_workspace_bytes(spec, GateKind::kSite, part, dtype, on));
        const Buffer workspace(DType::kF32, {static_cast<int64_t>(bytes / 4 + 1)});
        pre_args.workspace = last.workspace = {workspace.tensor().data, bytes};
        for (const Status& status : {pre(pre_args, on), post(post_args, on),
                                     post_backward(back, on), pre_backward(last, on)}) {
          ASSERT_TRUE(status.ok()) << status.message;
        }
      };
      run(batch, 0, dims.tokens, runtime);
      for (int64_t begin = 0, count = 1; begin < dims.tokens;
           begin += count, count = count % 35 + 3) {
        Runtime on = runtime;
        if (begin % 2 == 0) on.executor = pool->executor();
        run(alone, begin, std::min(count, dims.tokens - begin), on);
      }
      EXPECT_TRUE(alone.layer_input.same_bits(batch.layer_input));
      EXPECT_TRUE(alone.z.same_bits(batch.z));
      EXPECT_TRUE(alone.inv_rms.same_bits(batch.inv_rms));
      EXPECT_TRUE(alone.h_post.same_bits(batch.h_post));
      EXPECT_TRUE(alone.h_res.same_bits(batch.h_res));
      EXPECT_TRUE(alone.x_next.same_bits(batch.x_next));
      EXPECT_TRUE(alone.d_layer_output.same_bits(batch.d_layer_output));
      EXPECT_TRUE(alone.d_h_post.same_bits(batch.d_h_post));
      EXPECT_TRUE(alone.d_h_res.same_bits(batch.d_h_res));
      EXPECT_TRUE(alone.d_x.same_bits(batch.d_x));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Bitwise,
                         testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

}  // namespace
}  // namespace mhc::verify
