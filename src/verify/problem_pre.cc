// How a case becomes a call of pre or its backward.

#include "verify/problem_of.h"

namespace mhc::verify {
namespace {

class PreProblem : public ProblemOf<PreArgs> {
 public:
  explicit PreProblem(const Case& c) : ProblemOf(c) {
    const int64_t t = c.dims.tokens, n = c.dims.streams;
    const GateLayout layout = gate_layout(case_.spec, c.kind);
    const bool site = c.kind == GateKind::kSite, gates = !c.partial;
    args_.operation = c.partial ? "project_partial" : site ? "pre" : "head";
    args_.kind = c.kind;
    args_.x = activation("x", n);
    args_.params = parameters(layout, gates);
    if (gates) {
      args_.layer_input = output("layer_input", 0, c.dtype, {t, c.dims.embedding}, true);
      args_.z = output("z", 1, gate_type(), {t, layout.coefficients()}, false);
      args_.inv_rms = output("inv_rms", 2, gate_type(), {t}, false);
      args_.h_pre = output("h_pre", 3, gate_type(), {t, n}, false);
    }
    if (gates && site) {
      args_.h_post = output("h_post", 4, gate_type(), {t, n}, false);
      args_.h_res = output("h_res", 5, gate_type(), {t, n, n}, false);
    }
    args_.q = output("q", 6, gate_type(), {t, layout.coefficients()}, false);
    args_.sum_squares = output("sum_squares", 7, gate_type(), {t}, false);
    remember();
  }

 protected:
  size_t workspace_bytes(const Runtime& runtime) const override {
    return pre_workspace_bytes(args_.spec, args_.kind, case_.dims, case_.dtype, runtime);
  }
  Status prepare(const Runtime& runtime) override {
    if (!case_.packed || case_.dtype == DType::kF64) return {};
    args_.packed_phi = nullptr;
    const size_t bytes =
        packed_phi_bytes(args_.spec, args_.kind, case_.dims.embedding, case_.dtype, runtime);
    packed_ = Buffer(DType::kF32, {static_cast<int64_t>((bytes + 3) / 4)}, case_.placement);
    MHC_RETURN_IF_ERROR(pack_phi(args_.spec, args_.kind, args_.params, case_.dims.embedding,
                                 case_.dtype, packed_.tensor().data, bytes, runtime));
    args_.packed_phi = packed_.tensor().data;
    args_.packed_phi_bytes = bytes;
    return {};
  }
  Status call(const Runtime& runtime, Workspace workspace) override {
    PreArgs a = args_;
    a.workspace = workspace;
    if (a.packed_phi != nullptr) a.params.phi = a.params.norm_weight = {};
    return pre(a, runtime);
  }
  void call_reference() override { pre_reference(args_); }

 private:
  Buffer packed_;
};

class PreBackwardProblem : public ProblemOf<PreBackwardArgs> {
 public:
  explicit PreBackwardProblem(const Case& c) : ProblemOf(c) {
    const int64_t t = c.dims.tokens, n = c.dims.streams, d = c.dims.embedding;
    const GateLayout layout = gate_layout(case_.spec, c.kind);
    const bool site = c.kind == GateKind::kSite;
    args_.operation = c.partial ? "project_partial_backward"
                      : site    ? "pre_backward"
                                : "head_backward";
    args_.kind = c.kind;
    args_.accumulate = c.accumulate;
    args_.x = activation("x", n);
    args_.params = parameters(layout, !c.partial);
    c.partial ? partial_cotangents(layout) : cotangents(layout, site);
    const bool over = c.in_place && wanted(0) && !c.broadcast;
    const char* source = args_.d_x_next.present()   ? "d_x_next"
                         : args_.d_x_post.present() ? "d_x_post"
                                                    : nullptr;
    args_.d_x = over && source != nullptr ? alias("d_x", source)
                                          : output("d_x", 0, c.dtype, {t, n, d}, true);
    args_.d_phi = gradient("d_phi", 1, param_type(), {layout.coefficients(), n, d});
    if (!c.partial) {
      args_.d_alpha = gradient("d_alpha", 2, args_.params.alpha.dtype, {layout.groups()});
      args_.d_bias = gradient("d_bias", 3, args_.params.bias.dtype, {layout.coefficients()});
    }
    if (c.norm_weight) args_.d_norm_weight = gradient("d_norm_weight", 4, param_type(), {n, d});
    remember();
  }

 protected:
  size_t workspace_bytes(const Runtime& runtime) const override {
    return pre_backward_workspace_bytes(args_.spec, args_.kind, case_.dims, case_.dtype, runtime);
  }
  Status call(const Runtime& runtime, Workspace workspace) override {
    PreBackwardArgs a = args_;
    a.workspace = workspace;
    return pre_backward(a, runtime);
  }
  void call_reference() override { pre_backward_reference(args_); }

 private:
  void partial_cotangents(const GateLayout& layout) {
    const int64_t t = case_.dims.tokens;
    args_.d_q = normal("d_q", gate_type(), {t, layout.coefficients()}, 1);
    args_.d_sum_squares = normal("d_sum_squares", gate_type(), {t}, 0.3);
  }
  void cotangents(const GateLayout& layout, bool site) {
    const int64_t t = case_.dims.tokens, n = case_.dims.streams;
    args_.z = normal("z", gate_type(), {t, layout.coefficients()}, 1);
    args_.inv_rms = uniform("inv_rms", gate_type(), {t}, 0.5, 2);
    args_.d_layer_input = cotangent("d_layer_input", 0);
    if (site && case_.lazy) args_.d_x_next = cotangent("d_x_next", n);
    if (site && !case_.lazy) args_.d_x_post = cotangent("d_x_post", n);
    if (case_.no_cotangents) return;
    args_.d_h_pre = normal("d_h_pre", gate_type(), {t, n}, 3);
    if (!site) return;
    args_.d_h_post = normal("d_h_post", gate_type(), {t, n}, 3);
    args_.d_h_res = normal("d_h_res", gate_type(), {t, n, n}, 3);
  }
};

}  // namespace

std::unique_ptr<Problem> make_pre_problem(const Case& c) {
  switch (c.op) {
    case Op::kPre:
      return std::make_unique<PreProblem>(c);
    case Op::kPreBackward:
      return std::make_unique<PreBackwardProblem>(c);
    default:
      return nullptr;
  }
}

}  // namespace mhc::verify
