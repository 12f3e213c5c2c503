// One training loop of one site, in C++: streams x -> pre -> branch -> post -> loss, and all the
// way back.
//
//   cmake --build BUILD --target example_train_site && BUILD/bin/example_train_site
//
// The branch is a learned scale per feature. The site and the branch learn to move every stream
// towards a target; the loss falls to a small part of what it was.

#include <cstdio>
#include <mhc/mhc.hpp>
#include <random>
#include <vector>

namespace {

constexpr mhc::Dims kDims{96, 4, 40};  // tokens, streams, embedding
constexpr int kSteps = 300;

using Floats = std::vector<float>;

Floats random_floats(std::int64_t count, float scale, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  Floats values(static_cast<std::size_t>(count));
  for (float& v : values) v = normal(generator);
  return values;
}

Floats zeros(std::int64_t count) { return Floats(static_cast<std::size_t>(count), 0.0f); }

void descend(Floats& parameter, const Floats& gradient, float rate) {
  for (std::size_t i = 0; i < parameter.size(); ++i) parameter[i] -= rate * gradient[i];
}

// What a site keeps: its parameters, their gradients, and what forward saves for backward.
struct Site {
  explicit Site(const mhc::Spec& site_spec) : spec(site_spec) {
    // Gates that start near an ordinary residual connection: h_res near the identity.
    for (std::int64_t i = 0; i < n; ++i) bias[static_cast<std::size_t>(2 * n + i * n + i)] = 4.0f;
  }

  mhc::Params params() {
    return {mhc::tensor(phi, {m, n, d}), mhc::tensor(alpha, {3}), mhc::tensor(bias, {m}), {}};
  }
  mhc::ParamGradients gradients() {
    return {mhc::tensor(d_phi, {m, n, d}), mhc::tensor(d_alpha, {3}), mhc::tensor(d_bias, {m}), {}};
  }

  // x [T, n, D] -> layer_input [T, D]
  void pre(const Floats& x, Floats& layer_input) {
    mhc::PreArgs args(spec);
    args.x = mhc::tensor(x, {t, n, d});
    args.params = params();
    args.layer_input = mhc::tensor(layer_input, {t, d});
    args.z = mhc::tensor(z, {t, m});
    args.inv_rms = mhc::tensor(inv_rms, {t});
    args.h_post = mhc::tensor(h_post, {t, n});
    args.h_res = mhc::tensor(h_res, {t, n, n});
    mhc::pre(args, workspace);
  }

  // layer_output [T, D] -> x_next [T, n, D]
  void post(const Floats& x, const Floats& layer_output, Floats& x_next) {
    mhc::PostArgs args(spec);
    args.x = mhc::tensor(x, {t, n, d});
    args.layer_output = mhc::tensor(layer_output, {t, d});
    args.h_post = mhc::tensor(h_post, {t, n});
    args.h_res = mhc::tensor(h_res, {t, n, n});
    args.x_next = mhc::tensor(x_next, {t, n, d});
    mhc::post(args);
  }

  // The lazy schedule: d_x_next itself goes on to pre_backward.
  void post_backward(const Floats& x, const Floats& layer_output, const Floats& d_x_next,
                     Floats& d_layer_output) {
    mhc::PostBackwardArgs args(spec);
    args.d_x_next = mhc::tensor(d_x_next, {t, n, d});
    args.x = mhc::tensor(x, {t, n, d});
    args.layer_output = mhc::tensor(layer_output, {t, d});
    args.h_post = mhc::tensor(h_post, {t, n});
    args.d_layer_output = mhc::tensor(d_layer_output, {t, d});
    args.d_h_post = mhc::tensor(d_h_post, {t, n});
    args.d_h_res = mhc::tensor(d_h_res, {t, n, n});
    mhc::post_backward(args);
  }

  void pre_backward(const Floats& x, const Floats& d_layer_input, const Floats& d_x_next,
                    Floats& d_x) {
    mhc::PreBackwardArgs args(spec);
    args.x = mhc::tensor(x, {t, n, d});
    args.params = params();
    args.z = mhc::tensor(z, {t, m});
    args.inv_rms = mhc::tensor(inv_rms, {t});
    args.d_layer_input = mhc::tensor(d_layer_input, {t, d});
    args.d_h_post = mhc::tensor(d_h_post, {t, n});
    args.d_h_res = mhc::tensor(d_h_res, {t, n, n});
    args.d_x_next = mhc::tensor(d_x_next, {t, n, d});
    args.d_x = mhc::tensor(d_x, {t, n, d});
    args.gradients = gradients();
    mhc::pre_backward(args, workspace);
  }

  const std::int64_t t = kDims.tokens, n = kDims.streams, d = kDims.embedding;
  mhc::Spec spec;
  const std::int64_t m = spec.coefficients();
  Floats phi = random_floats(m * n * d, 0.02f, 1), alpha = Floats(3, 0.1f), bias = zeros(m);
  Floats d_phi = zeros(m * n * d), d_alpha = zeros(3), d_bias = zeros(m);
  Floats z = zeros(t * m), inv_rms = zeros(t), h_post = zeros(t * n), h_res = zeros(t * n * n);
  Floats d_h_post = zeros(t * n), d_h_res = zeros(t * n * n);
  mhc::Workspace workspace;
};

// loss = sum (x_next - target)^2 / (2 T n D); leaves its gradient.
double loss_and_gradient(const Floats& x_next, const Floats& target, Floats& d_x_next) {
  double sum = 0;
  for (std::size_t i = 0; i < x_next.size(); ++i) {
    const float difference = x_next[i] - target[i];
    sum += 0.5 * static_cast<double>(difference) * static_cast<double>(difference);
    d_x_next[i] = difference / static_cast<float>(x_next.size());
  }
  return sum / static_cast<double>(x_next.size());
}

double train() {
  const auto [t, n, d] = kDims;
  Site site(mhc::Spec::preset("deepseek_v4"));
  const Floats x = random_floats(t * n * d, 1.0f, 2);
  // Each stream should become 0.2 of itself plus twice the mean of all, scaled by feature.
  Floats target = zeros(t * n * d);
  const Floats wanted_scale = random_floats(d, 1.0f, 3);
  for (std::int64_t k = 0; k < t; ++k) {
    for (std::int64_t i = 0; i < n * d; ++i) {
      float mean = 0;
      for (std::int64_t j = 0; j < n; ++j)
        mean += x[static_cast<std::size_t>((k * n + j) * d + i % d)] / 4;
      const std::size_t at = static_cast<std::size_t>(k * n * d + i);
      target[at] = 0.2f * x[at] + 2 * wanted_scale[static_cast<std::size_t>(i % d)] * mean;
    }
  }

  Floats scale = Floats(static_cast<std::size_t>(d), 0.0f), d_scale = zeros(d);
  Floats layer_input = zeros(t * d), layer_output = zeros(t * d), x_next = zeros(t * n * d);
  Floats d_layer_input = zeros(t * d), d_layer_output = zeros(t * d), d_x = zeros(t * n * d);
  Floats d_x_next = zeros(t * n * d);
  double first = 0;
  double loss = 0;
  for (int step = 0; step < kSteps; ++step) {
    site.pre(x, layer_input);
    for (std::size_t i = 0; i < layer_input.size(); ++i) {
      layer_output[i] = scale[i % scale.size()] * layer_input[i];
    }
    site.post(x, layer_output, x_next);
    loss = loss_and_gradient(x_next, target, d_x_next);

    site.post_backward(x, layer_output, d_x_next, d_layer_output);
    d_scale.assign(d_scale.size(), 0.0f);
    for (std::size_t i = 0; i < layer_input.size(); ++i) {
      d_scale[i % scale.size()] += d_layer_output[i] * layer_input[i];
      d_layer_input[i] = d_layer_output[i] * scale[i % scale.size()];
    }
    site.pre_backward(x, d_layer_input, d_x_next, d_x);

    constexpr float kRate = 1.0f;
    descend(scale, d_scale, 10 * kRate);
    descend(site.phi, site.d_phi, kRate);
    descend(site.alpha, site.d_alpha, kRate);
    descend(site.bias, site.d_bias, kRate);
    if (step == 0) first = loss;
    if (step % 50 == 0 || step + 1 == kSteps) std::printf("step %3d  loss %.5f\n", step, loss);
  }
  return loss / first;
}

}  // namespace

int main() {
  try {
    const double left = train();
    std::printf("loss fell to %.2f %% of what it was\n", 100 * left);
    return left < 0.5 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
