#pragma once
// What the tests of the streaming operations share. Each runs every row of its operation's table
// that this processor has, with ordinary and with streaming stores.

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/counters.h"
#include "base/fpenv.h"
#include "base/pool.h"
#include "base/runtime.h"
#include "verify/buffer.h"
#include "verify/expect.h"
#include "verify/random.h"

namespace mhc::streaming {

using verify::Buffer;
using verify::Padding;
using verify::Placement;

template <class Kernel>
std::vector<Kernel> available(std::span<const Kernel> rows) {
  std::vector<Kernel> kept(rows.begin(), rows.end());
  std::erase_if(kept, [](const Kernel& k) { return !is_available(k.isa); });
  return kept;
}

template <class Kernel>
std::string kernel_name(const testing::TestParamInfo<Kernel>& info) {
  return info.param.name;
}

// Normal numbers, the same for the same seed.
inline void fill(const Tensor& t, uint64_t seed) {
  verify::Random random(seed);
  verify::for_each_index(
      t, [&](int64_t i, int64_t j, int64_t k) { t.store(random.normal(), i, j, k); });
}

inline Buffer filled(DType dtype, std::vector<int64_t> shape, uint64_t seed,
                     Placement placement = Placement::kAligned, Padding padding = {}) {
  Buffer b(dtype, std::move(shape), placement, padding);
  fill(b, seed);
  return b;
}

inline Buffer listed(DType dtype, std::vector<int64_t> shape, const std::vector<double>& values) {
  Buffer b(dtype, std::move(shape));
  size_t next = 0;
  const Tensor& t = b;
  verify::for_each_index(
      t, [&](int64_t i, int64_t j, int64_t k) { t.store(values.at(next++), i, j, k); });
  return b;
}

// The same tensor with another stride: 0 repeats one index over a whole dimension.
inline Tensor with_stride(Tensor t, int32_t dimension, int64_t stride) {
  t.stride[dimension] = stride;
  return t;
}

template <class Kernel, class Args>
void run_kernel(const Kernel& kernel, const Args& args, int64_t tokens, bool streaming) {
  const FloatingPointPolicy policy;
  kernel.run(args, 0, tokens, streaming);
}

// Runs f, which writes the outputs of args, and judges them.
template <class Args, class F>
void expect_right(const Args& args, const F& f, const std::string& label) {
  const std::vector<verify::Expected> wanted = verify::expect(args);
  const std::vector<verify::Output> outputs = verify::outputs_of(args);
  ASSERT_EQ(wanted.size(), outputs.size());
  f();
  for (size_t k = 0; k < wanted.size(); ++k) {
    const verify::Comparison c = verify::compare(outputs[k].tensor, wanted[k]);
    EXPECT_TRUE(c.ok()) << label << ": " << c.wrong << " wrong, first " << c.first_wrong;
  }
}

inline std::vector<double> doubles(const Tensor& t) { return verify::widen(t); }

// Executors and tunings that may not change a bit: 1 to 7 threads, tasks of any size, stores of
// either kind.
struct Environment {
  std::string name;
  std::shared_ptr<ThreadPool> pool;
  Tuning tuning;

  Runtime runtime() const {
    Runtime r;
    if (pool) r.executor = pool->executor();
    r.table = reinterpret_cast<const TuningTable*>(this);
    r.lookup = [](const TuningTable* table, const char*, int64_t, int64_t, int64_t, int32_t,
                  int32_t) { return reinterpret_cast<const Environment*>(table)->tuning; };
    return r;
  }
};

inline std::vector<Environment> environments() {
  std::vector<Environment> all;
  for (const int32_t threads : {1, 2, 3, 4, 7}) {
    for (const int32_t per_task : {0, 1, 5}) {
      for (const int64_t stream_bytes : {int64_t{-1}, int64_t{0}, int64_t{1} << 40}) {
        Environment e;
        e.name = std::to_string(threads) + " threads, " + std::to_string(per_task) +
                 " tokens per task, streaming from " + std::to_string(stream_bytes);
        if (threads > 1) e.pool.reset(ThreadPool::create(threads, false));
        e.tuning.tokens_per_task = per_task;
        e.tuning.stream_bytes = stream_bytes;
        all.push_back(e);
      }
    }
  }
  return all;
}

// Sizes around vectors, chunks, lines and blocks.
inline const std::vector<int64_t>& embeddings() {
  static const std::vector<int64_t> all = {1,   2,   3,   7,   8,   9,    15,   16,   17,  24,
                                           31,  32,  33,  47,  63,  64,   65,   95,   127, 129,
                                           511, 512, 513, 543, 544, 1000, 1024, 1025, 1537};
  return all;
}

}  // namespace mhc::streaming
