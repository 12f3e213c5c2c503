// post, post_backward, collapse, spread: sums of products, each with its magnitudes beside it.

#include <cmath>

#include "verify/expect.h"
#include "verify/expect_common.h"
#include "verify/parallel.h"

namespace mhc::verify {

namespace {

// One token's gates as the mix uses them, with what they may be off by.
struct MixGates {
  std::vector<double> value, error;
  double largest = 0;

  MixGates(const Tensor& gates, int64_t t, int64_t count, GatePrecision precision, DType activation,
           const double* errors) {
    value = widen(tokens_of(gates, t, 1));
    error.assign(value.size(), 0.0);
    for (size_t k = 0; k < value.size(); ++k) {
      if (errors != nullptr) error[k] = errors[static_cast<size_t>(t * count) + k];
      const Approximate used = gate_in_mix({value[k], error[k]}, precision, activation);
      value[k] = used.value;
      error[k] = used.error;
    }
    largest = largest_finite(value.data(), static_cast<int64_t>(value.size()));
  }
};

double* row(Expected* e, int64_t index, int64_t size) { return e->value.data() + index * size; }
double* bound_row(Expected* e, int64_t index, int64_t size) {
  return e->bound.data() + index * size;
}

}  // namespace

std::vector<Output> outputs_of(const PostArgs& a) {
  return present_outputs({{"x_next", a.x_next}});
}
std::vector<Output> outputs_of(const PostBackwardArgs& a) {
  return present_outputs({{"d_layer_output", a.d_layer_output},
                          {"d_h_post", a.d_h_post},
                          {"d_h_res", a.d_h_res},
                          {"d_x", a.d_x}});
}
std::vector<Output> outputs_of(const CollapseArgs& a) { return present_outputs({{"out", a.out}}); }
std::vector<Output> outputs_of(const SpreadArgs& a) {
  return present_outputs({{"out", a.out}, {"d_weights", a.d_weights}});
}

std::vector<Expected> expect(const PostArgs& a, const InputErrors& errors) {
  const int64_t tokens = a.x.shape[0], n = a.x.shape[1], count = a.x.shape[2];
  const double unit = unit_of(a.x.dtype);
  const double chain = static_cast<double>(n + 2) * unit;
  Expected out("x_next", {tokens, n, count});
  parallel_for(tokens, static_cast<double>(tokens * count * n * n), [&](int64_t t, int32_t) {
    const std::vector<double> x = widen(tokens_of(a.x, t, 1));
    const std::vector<double> y = widen(tokens_of(a.layer_output, t, 1));
    const MixGates post(a.h_post, t, n, a.spec.h_post_precision, a.x.dtype, errors.h_post);
    const MixGates res(a.h_res, t, n * n, a.spec.h_res_precision, a.x.dtype, errors.h_res);
    const double largest = post.largest + res.largest + largest_finite(x.data(), n * count) +
                           largest_finite(y.data(), count);
    for (int64_t j = 0; j < n; ++j) {
      double* value = row(&out, t * n + j, count);
      double* bound = bound_row(&out, t * n + j, count);
      for (int64_t i = 0; i < n; ++i) {
        const size_t k = static_cast<size_t>(i * n + j);
        add_row(res.value[k], res.error[k], chain, x.data() + i * count, count, value, bound);
      }
      const size_t k = static_cast<size_t>(j);
      add_row(post.value[k], post.error[k], chain, y.data(), count, value, bound);
      add_constant(kFlush * static_cast<double>(n + 1) * (2 + largest), count, bound);
    }
  });
  return {std::move(out)};
}

std::vector<Expected> expect(const PostBackwardArgs& a, const InputErrors& errors) {
  const int64_t tokens = a.d_x_next.shape[0], n = a.d_x_next.shape[1], count = a.d_x_next.shape[2];
  const DType type = a.d_x_next.dtype;
  const double unit = unit_of(type);
  const double chain = static_cast<double>(n + 1) * unit;
  Expected d_y("d_layer_output", {a.d_layer_output.present() ? tokens : 0, count});
  Expected d_post("d_h_post", {a.d_h_post.present() ? tokens : 0, n});
  Expected d_res("d_h_res", {a.d_h_res.present() ? tokens : 0, n, n});
  Expected d_x("d_x", {a.d_x.present() ? tokens : 0, n, count});
  parallel_for(tokens, static_cast<double>(tokens * count * n * n), [&](int64_t t, int32_t) {
    const std::vector<double> g = widen(tokens_of(a.d_x_next, t, 1));
    const double flush =
        kFlush * static_cast<double>(n + 1) * (3 + largest_finite(g.data(), n * count));
    if (a.d_layer_output.present()) {
      const MixGates post(a.h_post, t, n, a.spec.h_post_precision, type, errors.h_post);
      for (int64_t j = 0; j < n; ++j) {
        const size_t k = static_cast<size_t>(j);
        add_row(post.value[k], post.error[k], chain, g.data() + j * count, count,
                row(&d_y, t, count), bound_row(&d_y, t, count));
      }
      add_constant(flush * (1 + post.largest), count, bound_row(&d_y, t, count));
    }
    if (a.d_h_post.present()) {
      const std::vector<double> y = widen(tokens_of(a.layer_output, t, 1));
      for (int64_t j = 0; j < n; ++j) {
        const Approximate p = product(g.data() + j * count, y.data(), count, unit);
        *row(&d_post, t * n + j, 1) = p.value;
        *bound_row(&d_post, t * n + j, 1) = p.error;
      }
    }
    if (a.d_h_res.present()) {
      const std::vector<double> x = widen(tokens_of(a.x, t, 1));
      for (int64_t k = 0; k < n * n; ++k) {
        const Approximate p =
            product(x.data() + k / n * count, g.data() + k % n * count, count, unit);
        *row(&d_res, t * n * n + k, 1) = p.value;
        *bound_row(&d_res, t * n * n + k, 1) = p.error;
      }
    }
    if (a.d_x.present()) {
      const MixGates res(a.h_res, t, n * n, a.spec.h_res_precision, type, errors.h_res);
      for (int64_t k = 0; k < n * n; ++k) {
        const int64_t i = k / n, j = k % n;
        const size_t s = static_cast<size_t>(k);
        add_row(res.value[s], res.error[s], chain, g.data() + j * count, count,
                row(&d_x, t * n + i, count), bound_row(&d_x, t * n + i, count));
      }
      add_constant(flush * (1 + res.largest), n * count, bound_row(&d_x, t, n * count));
    }
  });
  std::vector<Expected> all;
  if (a.d_layer_output.present()) all.push_back(std::move(d_y));
  if (a.d_h_post.present()) all.push_back(std::move(d_post));
  if (a.d_h_res.present()) all.push_back(std::move(d_res));
  if (a.d_x.present()) all.push_back(std::move(d_x));
  return all;
}

std::vector<Expected> expect(const CollapseArgs& a) {
  const int64_t tokens = a.x.shape[0], n = a.x.shape[1], count = a.x.shape[2];
  const double unit = unit_of(a.x.dtype);
  const double chain = static_cast<double>(n + 2) * unit;  // one more for the scale
  Expected out("out", {tokens, count});
  parallel_for(tokens, static_cast<double>(tokens * count * n), [&](int64_t t, int32_t) {
    const std::vector<double> x = widen(tokens_of(a.x, t, 1));
    double largest = 1;
    std::vector<double> weight(static_cast<size_t>(n), 1.0);
    if (a.weights.present()) {
      weight = MixGates(a.weights, t, n, a.weights_precision, a.x.dtype, nullptr).value;
      largest = largest_finite(weight.data(), n);
    }
    for (int64_t i = 0; i < n; ++i) {
      add_row(a.scale * weight[static_cast<size_t>(i)], 0, chain + unit, x.data() + i * count,
              count, row(&out, t, count), bound_row(&out, t, count));
    }
    largest += largest_finite(x.data(), n * count);
    add_constant(kFlush * static_cast<double>(n + 1) * (2 + largest) * (1 + std::fabs(a.scale)),
                 count, bound_row(&out, t, count));
  });
  return {std::move(out)};
}

std::vector<Expected> expect(const SpreadArgs& a) {
  const int64_t tokens = a.source.shape[0], n = a.streams, count = a.source.shape[1];
  const double unit = unit_of(a.source.dtype);
  Expected out("out", {a.out.present() ? tokens : 0, n, count});
  Expected d_weights("d_weights", {a.d_weights.present() ? tokens : 0, n});
  parallel_for(tokens, static_cast<double>(tokens * count * n), [&](int64_t t, int32_t) {
    const std::vector<double> source = widen(tokens_of(a.source, t, 1));
    if (a.out.present()) {
      std::vector<double> weight(static_cast<size_t>(n), 1.0);
      if (a.weights.present()) {
        weight = MixGates(a.weights, t, n, a.weights_precision, a.source.dtype, nullptr).value;
      }
      const double largest =
          largest_finite(weight.data(), n) + largest_finite(source.data(), count);
      for (int64_t i = 0; i < n; ++i) {
        add_row(a.scale * weight[static_cast<size_t>(i)], 0, 3 * unit, source.data(), count,
                row(&out, t * n + i, count), bound_row(&out, t * n + i, count));
        add_constant(kFlush * (2 + largest) * (1 + std::fabs(a.scale)), count,
                     bound_row(&out, t * n + i, count));
      }
    }
    if (a.d_weights.present()) {
      const std::vector<double> x = widen(tokens_of(a.x, t, 1));
      for (int64_t i = 0; i < n; ++i) {
        const Approximate p = product(x.data() + i * count, source.data(), count, unit);
        *row(&d_weights, t * n + i, 1) = p.value;
        *bound_row(&d_weights, t * n + i, 1) = p.error;
      }
    }
  });
  std::vector<Expected> all;
  if (a.out.present()) all.push_back(std::move(out));
  if (a.d_weights.present()) all.push_back(std::move(d_weights));
  return all;
}

}  // namespace mhc::verify
