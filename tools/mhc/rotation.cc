#include "mhc/rotation.h"

#include <algorithm>

namespace mhc::tool {

Rotation::Rotation(int64_t copies, DType dtype, std::vector<int64_t> shape)
    : copies_(std::max<int64_t>(copies, 1)) {
  const auto extent = [&](size_t i) { return i < shape.size() ? shape[i] : 0; };
  first_ = make_tensor(nullptr, dtype, static_cast<int32_t>(shape.size()), extent(0), extent(1),
                       extent(2));
  // The odd line keeps copies and tensors out of each other's cache sets.
  stride_ = round_up(first_.elements() * size_of(dtype), 4096) + 4096 + 64;
  memory_ = Memory(copies_ * stride_);
}

int64_t Copies::most(std::initializer_list<BenchOp> ops) const {
  int64_t most = 1;
  for (const BenchOp op : ops) most = std::max(most, of[static_cast<int32_t>(op)]);
  return most;
}

int64_t touched_bytes(const SiteProblem& p, BenchOp op) {
  const int64_t streams = p.dims.tokens * p.dims.flat() * size_of(p.dtype);
  const int64_t row = streams / p.dims.streams;
  switch (op) {
    case BenchOp::kPre:
      return streams + row + p.phi_bytes();
    case BenchOp::kPost:
      return 2 * streams + row;
    case BenchOp::kPostBackward:
      return 2 * streams + 2 * row;
    case BenchOp::kPreBackward:
      break;
  }
  return 2 * streams + row + p.phi_bytes();
}

int64_t site_bytes(const SiteProblem& p, const Copies& copies) {
  using enum BenchOp;
  const int64_t streams = p.dims.tokens * p.dims.flat() * size_of(p.dtype);
  const int64_t row = streams / p.dims.streams;
  const int64_t n = p.dims.streams;
  const int64_t gates = 4 * p.dims.tokens * (p.coefficients() + 1 + 2 * n * (n + 1));
  const int64_t all = copies.most({kPre, kPost, kPostBackward, kPreBackward});
  return streams * (all + copies.most({kPost}) + copies.most({kPostBackward, kPreBackward})) +
         row * (copies.most({kPre}) + copies.most({kPost, kPostBackward}) +
                copies.most({kPreBackward}) + copies.most({kPostBackward})) +
         p.phi_bytes() * (1 + copies.most({kPre, kPreBackward})) + gates * all;
}

Copies copies_of(const SiteProblem& problem, const std::vector<BenchOp>& ops, int64_t last_cache,
                 int64_t limit_bytes) {
  constexpr int64_t kLeast = 3;
  constexpr int64_t kMost = 512;
  Copies copies;
  for (const BenchOp op : ops) {
    const int64_t between =
        ceil_div(2 * last_cache, std::max<int64_t>(touched_bytes(problem, op), 1));
    copies.of[static_cast<int32_t>(op)] = std::clamp(between + 1, kLeast, kMost);
  }
  const auto most = [&] { return *std::max_element(copies.of, copies.of + kBenchOps); };
  while (site_bytes(problem, copies) > limit_bytes && most() > 1) {
    for (int64_t& count : copies.of) count = count == most() ? count - ceil_div(count, 8) : count;
    for (int64_t& count : copies.of) count = std::max<int64_t>(count, 1);
  }
  for (const BenchOp op : ops) {
    copies.limited =
        copies.limited ||
        (copies.of[static_cast<int32_t>(op)] - 1) * touched_bytes(problem, op) < last_cache;
  }
  return copies;
}

}  // namespace mhc::tool
