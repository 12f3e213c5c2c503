#pragma once
// Who computes: the reference, or the kernels under a Runtime. And a whole site through it.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "golden_site.h"
#include "kernels/post/post.h"
#include "kernels/post_backward/post_backward.h"
#include "kernels/pre/pre.h"
#include "kernels/pre_backward/pre_backward.h"
#include "verify/buffer.h"
#include "verify/filled.h"

namespace mhc::golden {

struct Implementation {
  std::string name;
  bool in_double;  // takes what a file has in f32 as f64
  std::function<Status(const PreArgs&)> pre;
  std::function<Status(const PostArgs&)> post;
  std::function<Status(const PostBackwardArgs&)> post_backward;
  std::function<Status(const PreBackwardArgs&)> pre_backward;
};

inline Implementation reference_implementation() {
  const auto as_call = [](auto reference) {
    return [reference](const auto& args) {
      const Status status = check(args);
      if (status.ok()) reference(args);
      return status;
    };
  };
  return {"reference",
          true,
          as_call([](const PreArgs& a) { pre_reference(a); }),
          as_call([](const PostArgs& a) { post_reference(a); }),
          as_call([](const PostBackwardArgs& a) { post_backward_reference(a); }),
          as_call([](const PreBackwardArgs& a) { pre_backward_reference(a); })};
}

inline Implementation kernel_implementation(const std::string& name, const Runtime& runtime) {
  const auto dims_of = [](const Tensor& x) { return Dims{x.shape[0], x.shape[1], x.shape[2]}; };
  const auto with_workspace = [](auto args, size_t bytes, const auto& call) {
    std::vector<double> memory(bytes / sizeof(double) + 1);
    args.workspace = {memory.data(), bytes};
    return call(args);
  };
  return {name,
          false,
          [=](const PreArgs& a) {
            const size_t bytes =
                pre_workspace_bytes(a.spec, a.kind, dims_of(a.x), a.x.dtype, runtime);
            return with_workspace(a, bytes, [&](const PreArgs& b) { return pre(b, runtime); });
          },
          [=](const PostArgs& a) { return post(a, runtime); },
          [=](const PostBackwardArgs& a) { return post_backward(a, runtime); },
          [=](const PreBackwardArgs& a) {
            const size_t bytes =
                pre_backward_workspace_bytes(a.spec, a.kind, dims_of(a.x), a.x.dtype, runtime);
            return with_workspace(
                a, bytes, [&](const PreBackwardArgs& b) { return pre_backward(b, runtime); });
          }};
}

// A poisoned tensor, or one that holds given values.
inline verify::Buffer tensor_of(DType dtype, std::vector<int64_t> shape,
                                const Values& values = {}) {
  return values.empty() ? verify::Buffer(dtype, std::move(shape))
                        : verify::filled(dtype, std::move(shape), values);
}

// Throws what an operation complains of.
inline void require(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message);
}

// The types that a site's tensors have for this implementation.
struct Types {
  DType activation, gate;
  DType parameter(DType stored) const { return gate == DType::kF64 ? gate : stored; }
};
inline Types types_of(const Implementation& implementation, const Site& site) {
  const bool widen = implementation.in_double && site.activation == DType::kF32;
  return widen ? Types{DType::kF64, DType::kF64} : Types{site.activation, DType::kF32};
}

struct ParameterTensors {
  verify::Buffer phi, alpha, bias, norm_weight;
  ParameterTensors(const Parameters& p, int64_t m, const Dims& dims, const Types& types)
      : phi(tensor_of(types.parameter(p.phi_type), {m, dims.streams, dims.embedding}, p.phi)),
        alpha(tensor_of(types.parameter(p.gate_type), {static_cast<int64_t>(p.alpha.size())},
                        p.alpha)),
        bias(tensor_of(types.parameter(p.gate_type), {m}, p.bias)) {
    if (!p.norm_weight.empty()) {
      norm_weight =
          tensor_of(types.parameter(p.phi_type), {dims.streams, dims.embedding}, p.norm_weight);
    }
  }
  Params params() const { return {phi, alpha, bias, norm_weight}; }
};

// pre, layer_output = w layer_input + f in the activation's type, post; then post's backward, the
// branch's and pre's in the lazy schedule. Parameter gradients are asked for in f32.
inline Results run_site(const Implementation& implementation, const Site& site) {
  const int64_t tokens = site.dims.tokens, n = site.dims.streams, embedding = site.dims.embedding;
  const int64_t m = gate_layout(site.spec, GateKind::kSite).coefficients();
  const Types types = types_of(implementation, site);
  const auto activation = [&](const Values& v, bool streams) {
    return streams ? tensor_of(types.activation, {tokens, n, embedding}, v)
                   : tensor_of(types.activation, {tokens, embedding}, v);
  };
  const auto gate = [&](std::vector<int64_t> shape) {
    return tensor_of(types.gate, std::move(shape));
  };
  const ParameterTensors parameters(site.params, m, site.dims, types);
  const verify::Buffer x = activation(site.x, true), g = activation(site.g, true);

  const verify::Buffer layer_input = activation({}, false);
  const verify::Buffer z = gate({tokens, m}), inv_rms = gate({tokens}), h_pre = gate({tokens, n});
  const verify::Buffer h_post = gate({tokens, n}), h_res = gate({tokens, n, n});
  PreArgs pre;
  pre.spec = site.spec;
  pre.x = x;
  pre.params = parameters.params();
  pre.layer_input = layer_input;
  pre.z = z;
  pre.inv_rms = inv_rms;
  pre.h_pre = h_pre;
  pre.h_post = h_post;
  pre.h_res = h_res;
  require(implementation.pre(pre));

  const verify::Buffer layer_output = activation({}, false), x_next = activation({}, true);
  const verify::Buffer product = activation({}, false);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t d = 0; d < embedding; ++d) {
      const size_t td = static_cast<size_t>(t * embedding + d);
      product.tensor().store(site.w[static_cast<size_t>(d)] * layer_input.tensor().load(t, d), t,
                             d);
      layer_output.tensor().store(product.tensor().load(t, d) + site.f[td], t, d);
    }
  }
  require(implementation.post({site.spec, x, layer_output, h_post, h_res, x_next}));

  const verify::Buffer d_layer_output = activation({}, false), d_h_post = gate({tokens, n});
  const verify::Buffer d_h_res = gate({tokens, n, n}), d_layer_input = activation({}, false);
  PostBackwardArgs post_backward;
  post_backward.spec = site.spec;
  post_backward.d_x_next = g;
  post_backward.x = x;
  post_backward.layer_output = layer_output;
  post_backward.h_post = h_post;
  post_backward.h_res = h_res;
  post_backward.d_layer_output = d_layer_output;
  post_backward.d_h_post = d_h_post;
  post_backward.d_h_res = d_h_res;
  require(implementation.post_backward(post_backward));

  Values d_w(static_cast<size_t>(embedding));
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t d = 0; d < embedding; ++d) {
      const double d_output = d_layer_output.tensor().load(t, d);
      d_w[static_cast<size_t>(d)] += d_output * layer_input.tensor().load(t, d);
      d_layer_input.tensor().store(site.w[static_cast<size_t>(d)] * d_output, t, d);
    }
  }

  const verify::Buffer d_x = activation({}, true), d_phi = gate({m, n, embedding});
  const verify::Buffer d_alpha = gate({3}), d_bias = gate({m}),
                       d_norm_weight = gate({n, embedding});
  PreBackwardArgs pre_backward;
  pre_backward.spec = site.spec;
  pre_backward.x = x;
  pre_backward.params = parameters.params();
  pre_backward.z = z;
  pre_backward.inv_rms = inv_rms;
  pre_backward.d_layer_input = d_layer_input;
  pre_backward.d_h_post = d_h_post;
  pre_backward.d_h_res = d_h_res;
  pre_backward.d_x_next = g;
  pre_backward.d_x = d_x;
  pre_backward.d_phi = d_phi;
  pre_backward.d_alpha = d_alpha;
  pre_backward.d_bias = d_bias;
  if (!site.params.norm_weight.empty()) pre_backward.d_norm_weight = d_norm_weight;
  require(implementation.pre_backward(pre_backward));

  Results results = {{"layer_input", verify::widen(layer_input)},
                     {"h_pre", verify::widen(h_pre)},
                     {"h_post", verify::widen(h_post)},
                     {"h_res", verify::widen(h_res)},
                     {"x_next", verify::widen(x_next)},
                     {"d_x", verify::widen(d_x)},
                     {"d_f", verify::widen(d_layer_output)},
                     {"d_w", d_w},
                     {"d_phi", verify::widen(d_phi)},
                     {"d_alpha", verify::widen(d_alpha)},
                     {"d_bias", verify::widen(d_bias)}};
  if (!site.params.norm_weight.empty()) results["d_norm_weight"] = verify::widen(d_norm_weight);
  return results;
}

// head = sum_i h_pre[i] x[i], with the head's own parameters.
inline Results run_head(const Implementation& implementation, const Site& site) {
  const int64_t tokens = site.dims.tokens, n = site.dims.streams, embedding = site.dims.embedding;
  const Types types = types_of(implementation, site);
  const ParameterTensors parameters(site.head_params, n, site.dims, types);
  const verify::Buffer x = tensor_of(types.activation, {tokens, n, embedding}, site.x);
  const verify::Buffer head = tensor_of(types.activation, {tokens, embedding});
  const verify::Buffer g = tensor_of(types.activation, {tokens, embedding}, site.g_head);
  const verify::Buffer z = tensor_of(types.gate, {tokens, n});
  const verify::Buffer inv_rms = tensor_of(types.gate, {tokens});
  PreArgs pre;
  pre.operation = "head";
  pre.spec = site.spec;
  pre.kind = GateKind::kHead;
  pre.x = x;
  pre.params = parameters.params();
  pre.layer_input = head;
  pre.z = z;
  pre.inv_rms = inv_rms;
  require(implementation.pre(pre));

  const verify::Buffer d_x = tensor_of(types.activation, {tokens, n, embedding});
  const verify::Buffer d_phi = tensor_of(types.gate, {n, n, embedding});
  const verify::Buffer d_alpha = tensor_of(types.gate, {1}), d_bias = tensor_of(types.gate, {n});
  PreBackwardArgs backward;
  backward.operation = "head_backward";
  backward.spec = site.spec;
  backward.kind = GateKind::kHead;
  backward.x = x;
  backward.params = parameters.params();
  backward.z = z;
  backward.inv_rms = inv_rms;
  backward.d_layer_input = g;
  backward.d_x = d_x;
  backward.d_phi = d_phi;
  backward.d_alpha = d_alpha;
  backward.d_bias = d_bias;
  require(implementation.pre_backward(backward));
  return {{"head", verify::widen(head)},
          {"head_z", verify::widen(z)},
          {"head_d_x", verify::widen(d_x)},
          {"d_head_phi", verify::widen(d_phi)},
          {"d_head_alpha", verify::widen(d_alpha)},
          {"d_head_bias", verify::widen(d_bias)}};
}

}  // namespace mhc::golden
