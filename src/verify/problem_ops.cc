// How each operation's arguments are made from a case.

#include "verify/problem.h"

namespace mhc::verify {
namespace {

std::vector<Expected> expect_of(const PreArgs& a, bool split) { return expect(a, split); }
std::vector<Expected> expect_of(const PreBackwardArgs& a, bool split) { return expect(a, split); }
template <class Args>
std::vector<Expected> expect_of(const Args& a, bool) {
  return expect(a);
}

template <class Args>
class ProblemOf : public Problem {
 public:
  std::vector<Expected> expect(bool split_phi) override { return expect_of(args_, split_phi); }
  std::vector<Output> outputs() const override { return outputs_of(args_); }

 protected:
  explicit ProblemOf(const Case& c) : Problem(c) {
    case_.spec.streams = c.dims.streams;
    args_spec(&args_);
  }
  Args args_;

 private:
  template <class A>
  void args_spec(A* a) {
    if constexpr (requires { a->spec; }) a->spec = case_.spec;
  }
};

class PostProblem : public ProblemOf<PostArgs> {
 public:
  explicit PostProblem(const Case& c) : ProblemOf(c) {
    const int64_t t = c.dims.tokens, n = c.dims.streams;
    args_.x = activation("x", n);
    args_.layer_output = activation("layer_output", 0);
    args_.h_post = uniform("h_post", gate_type(), {t, n}, 0, 2);
    args_.h_res = uniform("h_res", gate_type(), {t, n, n}, -0.3, 1);
    args_.x_next = c.in_place ? alias("x_next", "x")
                              : output("x_next", 0, c.dtype, {t, n, c.dims.embedding}, true);
    remember();
  }

 protected:
  Status call(const Runtime& runtime, Workspace) override { return post(args_, runtime); }
  void call_reference() override { post_reference(args_); }
};

class PostBackwardProblem : public ProblemOf<PostBackwardArgs> {
 public:
  explicit PostBackwardProblem(const Case& c) : ProblemOf(c) {
    const int64_t t = c.dims.tokens, n = c.dims.streams, d = c.dims.embedding;
    args_.d_x_next = cotangent("d_x_next", n);
    if (wanted(2)) args_.x = activation("x", n);
    if (wanted(1) || c.in_place) args_.layer_output = activation("layer_output", 0);
    if (wanted(0)) args_.h_post = uniform("h_post", gate_type(), {t, n}, 0, 2);
    if (wanted(3) && !c.lazy) args_.h_res = uniform("h_res", gate_type(), {t, n, n}, -0.3, 1);
    const bool over = c.in_place && wanted(0);
    args_.d_layer_output = over ? alias("d_layer_output", "layer_output")
                                : output("d_layer_output", 0, c.dtype, {t, d}, true);
    args_.d_h_post = output("d_h_post", 1, gate_type(), {t, n}, false);
    args_.d_h_res = output("d_h_res", 2, gate_type(), {t, n, n}, false);
    if (!c.lazy && wanted(3)) {
      const bool over_g = c.in_place && !c.broadcast;
      args_.d_x = over_g ? alias("d_x", "d_x_next") : output("d_x", 3, c.dtype, {t, n, d}, true);
    }
    remember();
  }

 protected:
  Status call(const Runtime& runtime, Workspace) override { return post_backward(args_, runtime); }
  void call_reference() override { post_backward_reference(args_); }
};

class CollapseProblem : public ProblemOf<CollapseArgs> {
 public:
  explicit CollapseProblem(const Case& c) : ProblemOf(c) {
    const int64_t t = c.dims.tokens, n = c.dims.streams;
    args_.operation = c.weightless ? "reduce" : "apply_pre";
    args_.weights_precision = c.spec.h_pre_precision;
    args_.scale = c.weightless ? 1 / static_cast<double>(n) : 1;
    args_.x = cotangent("x", n);
    if (!c.weightless) args_.weights = uniform("weights", gate_type(), {t, n}, -0.2, 1);
    args_.out = output("out", 0, c.dtype, {t, c.dims.embedding}, true);
    remember();
  }

 protected:
  Status call(const Runtime& runtime, Workspace) override { return collapse(args_, runtime); }
  void call_reference() override { collapse_reference(args_); }
};

class SpreadProblem : public ProblemOf<SpreadArgs> {
 public:
  explicit SpreadProblem(const Case& c) : ProblemOf(c) {
    const int64_t t = c.dims.tokens, n = c.dims.streams, d = c.dims.embedding;
    args_.operation = c.weightless ? "expand" : "apply_pre_backward";
    args_.weights_precision = c.spec.h_pre_precision;
    args_.scale = c.weightless ? 1 / static_cast<double>(n) : 1;
    args_.streams = n;
    args_.source = cotangent("source", 0);
    if (!c.weightless) args_.weights = uniform("weights", gate_type(), {t, n}, -0.2, 1);
    if (wanted(1) || c.in_place) args_.x = activation("x", n);
    args_.out =
        c.in_place && wanted(0) ? alias("out", "x") : output("out", 0, c.dtype, {t, n, d}, true);
    args_.d_weights = output("d_weights", 1, gate_type(), {t, n}, false);
    remember();
  }

 protected:
  Status call(const Runtime& runtime, Workspace) override { return spread(args_, runtime); }
  void call_reference() override { spread_reference(args_); }
};

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
    args_.embedding_total = c.sharded ? 2 * d + 1 : 0;
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

class CoefficientsProblem : public ProblemOf<CoefficientsArgs> {
 public:
  explicit CoefficientsProblem(const Case& c) : ProblemOf(c) {
    const int64_t t = c.dims.tokens, n = c.dims.streams;
    const GateLayout layout = gate_layout(case_.spec, c.kind);
    const Params p = parameters(layout, true);
    const double features = static_cast<double>(n * c.dims.embedding);
    args_.kind = c.kind;
    args_.embedding_total = c.dims.embedding;
    args_.q = normal("q", gate_type(), {t, layout.coefficients()}, 1);
    args_.sum_squares = uniform("sum_squares", gate_type(), {t}, 0.2 * features, 2 * features);
    args_.alpha = p.alpha;
    args_.bias = p.bias;
    args_.z = output("z", 0, gate_type(), {t, layout.coefficients()}, false);
    args_.inv_rms = output("inv_rms", 1, gate_type(), {t}, false);
    args_.h_pre = output("h_pre", 2, gate_type(), {t, n}, false);
    if (c.kind == GateKind::kSite) {
      args_.h_post = output("h_post", 3, gate_type(), {t, n}, false);
      args_.h_res = output("h_res", 4, gate_type(), {t, n, n}, false);
    }
    remember();
  }

 protected:
  size_t workspace_bytes(const Runtime& runtime) const override {
    return coefficients_workspace_bytes(args_.spec, args_.kind, case_.dims.tokens, runtime);
  }
  Status call(const Runtime& runtime, Workspace workspace) override {
    CoefficientsArgs a = args_;
    a.workspace = workspace;
    return coefficients_from_partials(a, runtime);
  }
  void call_reference() override { coefficients_reference(args_); }
};

class CoefficientsBackwardProblem : public ProblemOf<CoefficientsBackwardArgs> {
 public:
  explicit CoefficientsBackwardProblem(const Case& c) : ProblemOf(c) {
    const int64_t t = c.dims.tokens, n = c.dims.streams;
    const GateLayout layout = gate_layout(case_.spec, c.kind);
    const Params p = parameters(layout, true);
    const double features = static_cast<double>(n * c.dims.embedding);
    args_.kind = c.kind;
    args_.embedding_total = c.dims.embedding;
    args_.accumulate = c.accumulate;
    args_.z = normal("z", gate_type(), {t, layout.coefficients()}, 1);
    args_.inv_rms = uniform("inv_rms", gate_type(), {t}, 0.5, 2);
    args_.sum_squares = uniform("sum_squares", gate_type(), {t}, 0.2 * features, 2 * features);
    args_.alpha = p.alpha;
    args_.bias = p.bias;
    args_.d_h_pre = normal("d_h_pre", gate_type(), {t, n}, 1);
    if (c.kind == GateKind::kSite) {
      args_.d_h_post = normal("d_h_post", gate_type(), {t, n}, 1);
      args_.d_h_res = normal("d_h_res", gate_type(), {t, n, n}, 1);
    }
    args_.d_q = output("d_q", 0, gate_type(), {t, layout.coefficients()}, false);
    args_.d_sum_squares = output("d_sum_squares", 1, gate_type(), {t}, false);
    args_.d_alpha = gradient("d_alpha", 2, p.alpha.dtype, {layout.groups()});
    args_.d_bias = gradient("d_bias", 3, p.bias.dtype, {layout.coefficients()});
    remember();
  }

 protected:
  size_t workspace_bytes(const Runtime& runtime) const override {
    return coefficients_workspace_bytes(args_.spec, args_.kind, case_.dims.tokens, runtime);
  }
  Status call(const Runtime& runtime, Workspace workspace) override {
    CoefficientsBackwardArgs a = args_;
    a.workspace = workspace;
    return coefficients_from_partials_backward(a, runtime);
  }
  void call_reference() override { coefficients_backward_reference(args_); }
};

}  // namespace

std::unique_ptr<Problem> Problem::make(const Case& c) {
  switch (c.op) {
    case Op::kPostBackward:
      return std::make_unique<PostBackwardProblem>(c);
    case Op::kCollapse:
      return std::make_unique<CollapseProblem>(c);
    case Op::kSpread:
      return std::make_unique<SpreadProblem>(c);
    case Op::kPre:
      return std::make_unique<PreProblem>(c);
    case Op::kPreBackward:
      return std::make_unique<PreBackwardProblem>(c);
    case Op::kCoefficients:
      return std::make_unique<CoefficientsProblem>(c);
    case Op::kCoefficientsBackward:
      return std::make_unique<CoefficientsBackwardProblem>(c);
    case Op::kPost:
      break;
  }
  return std::make_unique<PostProblem>(c);
}

}  // namespace mhc::verify
