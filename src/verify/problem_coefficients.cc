// How a case becomes a call of the coefficients alone.

#include "verify/problem_of.h"

namespace mhc::verify {
namespace {

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

std::unique_ptr<Problem> make_coefficients_problem(const Case& c) {
  switch (c.op) {
    case Op::kCoefficients:
      return std::make_unique<CoefficientsProblem>(c);
    case Op::kCoefficientsBackward:
      return std::make_unique<CoefficientsBackwardProblem>(c);
    default:
      return nullptr;
  }
}

}  // namespace mhc::verify
