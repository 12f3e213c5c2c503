// No operation allocates. One without tokens needs no workspace either: its parameter gradients are
// zeros, or what was there when they are accumulated.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>

#include "base/pool.h"
#include "verify/cases_test.h"
#include "verify/problem.h"

namespace {
std::atomic<int64_t> allocations{0};
}

// Not inlined: GCC would find malloc's memory deleted and new's freed.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace mhc::verify {
namespace {

// Of this operation on this runtime, in a workspace of the size that it names or in none.
int64_t allocations_of(Problem* problem, const Runtime& runtime, bool with_workspace) {
  const Status prepared = problem->run(runtime);  // packs phi
  EXPECT_TRUE(prepared.ok()) << prepared.message;
  problem->restore();
  const size_t bytes = with_workspace ? problem->workspace_bytes(runtime) : 0;
  const Buffer memory(DType::kF32, {static_cast<int64_t>(bytes / 4 + 1)});
  const Workspace workspace{with_workspace ? memory.tensor().data : nullptr, bytes};
  const int64_t before = allocations;
  const Status status = problem->call(runtime, workspace);
  const int64_t made = allocations - before;
  EXPECT_TRUE(status.ok()) << status.message;
  return made;
}

// Every form of every operation.
std::vector<Case> forms(const Dims& dims, DType dtype) {
  std::vector<Case> all;
  for (int32_t op = 0; op < kOps; ++op) {
    Case c;
    c.op = static_cast<Op>(op);
    c.dims = dims;
    c.dtype = dtype;
    c.norm_weight = true;
    all.push_back(c);
    if (c.op == Op::kPre) {
      c.packed = true;
      all.push_back(c);
    }
    if (c.op < Op::kPre) continue;
    c.kind = GateKind::kHead;
    all.push_back(c);
    if (c.op > Op::kPreBackward) continue;
    c.kind = GateKind::kSite;
    c.partial = true;
    all.push_back(c);
  }
  return all;
}

class Allocations : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override { ASSERT_EQ(missing_isas(), ""); }
};

TEST_P(Allocations, NoneByAnyKernel) {
  if (!is_available(GetParam())) return;
  const std::unique_ptr<ThreadPool> pool(ThreadPool::create(3, false));
  // The second splits its features over tasks.
  for (const Dims& dims : {Dims{150, 4, 129}, Dims{1, 4, 1030}}) {
    for (const DType dtype : {DType::kBF16, DType::kF32, DType::kF16}) {
      for (const Case& c : forms(dims, dtype)) {
        const auto problem = Problem::make(c);
        Runtime runtime = runtime_of(GetParam());
        EXPECT_EQ(allocations_of(problem.get(), runtime, true), 0) << describe(c);
        runtime.executor = pool->executor();
        EXPECT_EQ(allocations_of(problem.get(), runtime, true), 0) << describe(c) << " in a pool";
      }
    }
  }
}

// f64 runs the definition, which holds arrays.
TEST(AllocationsTest, TheCounterCounts) {
  Case c;
  c.op = Op::kPre;
  c.dtype = DType::kF64;
  EXPECT_GT(allocations_of(Problem::make(c).get(), {}, true), 0);
}

TEST_P(Allocations, NothingIsNeededWithoutTokens) {
  if (!is_available(GetParam())) return;
  const Runtime runtime = runtime_of(GetParam());
  for (const DType dtype : {DType::kBF16, DType::kF32, DType::kF16, DType::kF64}) {
    for (Case c : forms({0, 4, 33}, dtype)) {
      for (const int32_t gradients : {0, 1, 2}) {  // wide, accumulated, in the parameter's type
        c.accumulate = gradients == 1;
        c.narrow_gradients = gradients == 2;
        c.param_dtype = gradients == 2 ? DType::kBF16 : DType::kF32;
        const auto problem = Problem::make(c);
        problem->restore();
        const std::vector<uint8_t> before = problem->bits();
        EXPECT_EQ(problem->workspace_bytes(runtime), 0u) << describe(c);
        EXPECT_EQ(allocations_of(problem.get(), runtime, false), 0) << describe(c);
        EXPECT_EQ(problem->damage(), "") << describe(c);
        if (c.accumulate) {
          EXPECT_EQ(problem->bits(), before) << describe(c);
          continue;
        }
        for (const Output& o : problem->outputs()) {
          for (const double v : widen(o.tensor)) ASSERT_EQ(v, 0) << describe(c) << " " << o.name;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Allocations,
                         testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

}  // namespace
}  // namespace mhc::verify
