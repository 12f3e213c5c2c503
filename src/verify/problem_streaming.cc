// How a case becomes a call of post, post_backward, collapse or spread.

#include "verify/problem_of.h"

namespace mhc::verify {
namespace {

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

}  // namespace

std::unique_ptr<Problem> make_streaming_problem(const Case& c) {
  switch (c.op) {
    case Op::kPost:
      return std::make_unique<PostProblem>(c);
    case Op::kPostBackward:
      return std::make_unique<PostBackwardProblem>(c);
    case Op::kCollapse:
      return std::make_unique<CollapseProblem>(c);
    case Op::kSpread:
      return std::make_unique<SpreadProblem>(c);
    default:
      return nullptr;
  }
}

}  // namespace mhc::verify
