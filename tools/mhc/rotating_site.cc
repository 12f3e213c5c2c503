#include "mhc/rotating_site.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "kernels/post/post.h"
#include "kernels/post_backward/post_backward.h"
#include "kernels/pre/pre.h"
#include "kernels/pre_backward/pre_backward.h"
#include "verify/random.h"

namespace mhc::tool {
namespace {

void require(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message);
}

// Every copy gets numbers from one table, each row from another place in it: quick, and no two rows
// of a token are alike.
void fill_normal(const Rotation& rotation, double scale, const Runtime& runtime) {
  constexpr int64_t kTable = 1 << 18;
  constexpr int64_t kRow = 1 << 12;
  const Tensor first = rotation.at(0);
  const int64_t size = size_of(first.dtype);
  std::vector<char> table(static_cast<size_t>(kTable * size));
  const Tensor values = make_tensor(table.data(), first.dtype, 1, kTable);
  verify::Random random(verify::seed_of("bench"));
  for (int64_t i = 0; i < kTable; ++i) values.store(scale * random.normal(), i);
  const int64_t elements = first.elements();
  const int64_t rows = ceil_div(elements, kRow);
  runtime.executor.run(rows * rotation.copies(), [&](int64_t task, int32_t) {
    const int64_t begin = task % rows * kRow;
    const int64_t count = std::min(kRow, elements - begin);
    const int64_t from = task * 7919 % (kTable - kRow);
    std::memcpy(static_cast<char*>(rotation.at(task / rows).data) + begin * size,
                table.data() + from * size, static_cast<size_t>(count * size));
  });
}

// Outputs get their pages before they are measured.
void touch(const Rotation& rotation, const Runtime& runtime) {
  runtime.executor.run(rotation.copies(), [&](int64_t turn, int32_t) {
    std::memset(rotation.at(turn).data, 0, static_cast<size_t>(rotation.copy_bytes()));
  });
}

}  // namespace

RotatingSite::RotatingSite(const SiteProblem& problem, const Copies& copies, const Runtime& runtime)
    : problem_(problem) {
  using enum BenchOp;
  const Dims& d = problem_.dims;
  const int64_t t = d.tokens, n = d.streams, m = problem_.coefficients();
  const DType a = problem_.dtype;
  const int64_t all = copies.most({kPre, kPost, kPostBackward, kPreBackward});
  x_ = Rotation(all, a, {t, n, d.embedding});
  x_next_ = Rotation(copies.most({kPost}), a, {t, n, d.embedding});
  g_ = Rotation(copies.most({kPostBackward, kPreBackward}), a, {t, n, d.embedding});
  layer_input_ = Rotation(copies.most({kPre}), a, {t, d.embedding});
  layer_output_ = Rotation(copies.most({kPost, kPostBackward}), a, {t, d.embedding});
  d_layer_input_ = Rotation(copies.most({kPreBackward}), a, {t, d.embedding});
  d_layer_output_ = Rotation(copies.most({kPostBackward}), a, {t, d.embedding});
  z_ = Rotation(all, DType::kF32, {t, m});
  inv_rms_ = Rotation(all, DType::kF32, {t});
  for (Rotation* r : {&h_post_, &d_h_post_}) *r = Rotation(all, DType::kF32, {t, n});
  for (Rotation* r : {&h_res_, &d_h_res_}) *r = Rotation(all, DType::kF32, {t, n, n});
  phi_ = Rotation(copies.most({kPre, kPreBackward}), DType::kF32, {m, n, d.embedding});
  d_phi_ = Rotation(1, DType::kF32, {m, n, d.embedding});
  for (Rotation* r : {&alpha_, &d_alpha_}) *r = Rotation(1, DType::kF32, {3});
  for (Rotation* r : {&bias_, &d_bias_}) *r = Rotation(1, DType::kF32, {m});
  fill(runtime);
}

void RotatingSite::fill(const Runtime& runtime) {
  for (const Rotation* r : {&x_, &g_, &layer_output_, &d_layer_input_}) fill_normal(*r, 1, runtime);
  for (const Rotation* r : {&x_next_, &layer_input_, &d_layer_output_, &d_phi_}) touch(*r, runtime);
  fill_normal(phi_, 1 / std::sqrt(static_cast<double>(problem_.dims.flat())), runtime);
  fill_normal(bias_, 0.5, runtime);
  // As training starts; d_x, which the next call takes for g, then keeps its size over any number
  // of calls.
  for (int64_t i = 0; i < 3; ++i) alpha_.at(0).store(0.01, i);
  prepare(runtime);
  for (int64_t turn = 0; turn < z_.copies(); ++turn) {
    require(pre(turn, runtime));
    require(post_backward(turn, runtime));
  }
}

void RotatingSite::prepare(const Runtime& runtime) {
  const size_t bytes = std::max(
      pre_workspace_bytes(problem_.spec, GateKind::kSite, problem_.dims, problem_.dtype, runtime),
      pre_backward_workspace_bytes(problem_.spec, GateKind::kSite, problem_.dims, problem_.dtype,
                                   runtime));
  if (static_cast<int64_t>(bytes) > workspace_.bytes()) {
    workspace_ = Memory(static_cast<int64_t>(bytes));
  }
  if (!problem_.packed_phi) return;
  const size_t packed = packed_phi_bytes(problem_.spec, GateKind::kSite, problem_.dims.embedding,
                                         problem_.dtype, runtime);
  packed_ = Rotation(phi_.copies(), DType::kF32, {static_cast<int64_t>(packed) / 4 + 1});
  for (int64_t turn = 0; turn < packed_.copies(); ++turn) {
    require(pack_phi(problem_.spec, GateKind::kSite, params(turn), problem_.dims.embedding,
                     problem_.dtype, packed_.at(turn).data, packed, runtime));
  }
}

Params RotatingSite::params(int64_t turn) const {
  return {phi_.at(turn), alpha_.at(0), bias_.at(0), {}};
}

Tensor RotatingSite::input(const Rotation& tensors, int64_t turn) const {
  Tensor tensor = tensors.at(turn);
  if (problem_.one_token) tensor.stride[0] = 0;
  return tensor;
}

Status RotatingSite::pre(int64_t turn, const Runtime& runtime) {
  PreArgs args;
  args.spec = problem_.spec;
  args.x = input(x_, turn);
  args.params = params(turn);
  if (problem_.packed_phi) {
    args.packed_phi = packed_.at(turn).data;
    args.packed_phi_bytes = static_cast<size_t>(4 * packed_.at(turn).elements());
  }
  args.layer_input = layer_input_.at(turn);
  args.z = z_.at(turn);
  args.inv_rms = inv_rms_.at(turn);
  args.h_post = h_post_.at(turn);
  args.h_res = h_res_.at(turn);
  args.workspace = {workspace_.data(), static_cast<size_t>(workspace_.bytes())};
  return mhc::pre(args, runtime);
}

Status RotatingSite::post(int64_t turn, const Runtime& runtime) {
  PostArgs args;
  args.spec = problem_.spec;
  args.x = input(x_, turn);
  args.layer_output = input(layer_output_, turn);
  args.h_post = h_post_.at(turn);
  args.h_res = h_res_.at(turn);
  args.x_next = x_next_.at(turn);
  return mhc::post(args, runtime);
}

Status RotatingSite::post_backward(int64_t turn, const Runtime& runtime) {
  PostBackwardArgs args;
  args.spec = problem_.spec;
  args.d_x_next = input(g_, turn);
  args.x = input(x_, turn);
  args.layer_output = input(layer_output_, turn);
  args.h_post = h_post_.at(turn);
  args.d_layer_output = d_layer_output_.at(turn);
  args.d_h_post = d_h_post_.at(turn);
  args.d_h_res = d_h_res_.at(turn);
  return mhc::post_backward(args, runtime);
}

Status RotatingSite::pre_backward(int64_t turn, const Runtime& runtime) {
  PreBackwardArgs args;
  args.spec = problem_.spec;
  args.x = input(x_, turn);
  args.params = params(turn);
  args.z = z_.at(turn);
  args.inv_rms = inv_rms_.at(turn);
  args.d_layer_input = input(d_layer_input_, turn);
  args.d_h_post = d_h_post_.at(turn);
  if (gate_layout(problem_.spec, GateKind::kSite).res > 0) args.d_h_res = d_h_res_.at(turn);
  args.d_x_next = input(g_, turn);
  args.d_x = problem_.one_token ? x_next_.at(turn) : g_.at(turn);
  args.d_phi = d_phi_.at(0);
  args.d_alpha = d_alpha_.at(0);
  args.d_bias = d_bias_.at(0);
  args.workspace = {workspace_.data(), static_cast<size_t>(workspace_.bytes())};
  return mhc::pre_backward(args, runtime);
}

void RotatingSite::run(BenchOp op, int64_t turn, const Runtime& runtime) {
  switch (op) {
    case BenchOp::kPre:
      return require(pre(turn, runtime));
    case BenchOp::kPost:
      return require(post(turn, runtime));
    case BenchOp::kPostBackward:
      return require(post_backward(turn, runtime));
    case BenchOp::kPreBackward:
      return require(pre_backward(turn, runtime));
  }
}

void RotatingSite::run_site(int64_t turn, const Runtime& runtime) {
  require(pre(turn, runtime));
  require(post(turn, runtime));
  require(post_backward(turn + 1, runtime));
  require(pre_backward(turn + 1, runtime));
}

}  // namespace mhc::tool
