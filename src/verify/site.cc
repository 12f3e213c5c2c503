#include "verify/site.h"

#include <algorithm>

#include "kernels/pre/pre_plan.h"
#include "verify/expect_pre_backward.h"
#include "verify/site_memory.h"

namespace mhc::verify {
namespace {

constexpr int64_t kSliceTokens = 256;

Status run_site(const SiteCase& c, const SiteMemory& memory, const Runtime& runtime) {
  PreArgs before = memory.pre_args(c.spec);
  PreBackwardArgs after = memory.pre_backward_args(c.spec);
  const size_t bytes =
      std::max(pre_workspace_bytes(c.spec, GateKind::kSite, c.dims, c.dtype, runtime),
               pre_backward_workspace_bytes(c.spec, GateKind::kSite, c.dims, c.dtype, runtime));
  const Buffer workspace(DType::kF32, {static_cast<int64_t>(bytes / 4 + 1)});
  before.workspace = after.workspace = {workspace.tensor().data, bytes};
  MHC_RETURN_IF_ERROR(pre(before, runtime));
  MHC_RETURN_IF_ERROR(post(memory.post_args(c.spec), runtime));
  MHC_RETURN_IF_ERROR(post_backward(memory.post_backward_args(c.spec), runtime));
  return pre_backward(after, runtime);
}

// An expectation's values as an input of the next formula.
Tensor exact(Expected& e) {
  const auto extent = [&e](size_t i) { return i < e.shape.size() ? e.shape[i] : 0; };
  return make_tensor(e.value.data(), DType::kF64, static_cast<int32_t>(e.shape.size()), extent(0),
                     extent(1), extent(2));
}

template <class Args>
Args slice_of(Args a, int64_t begin, int64_t count,
              std::initializer_list<Tensor Args::*> per_token) {
  for (Tensor Args::*t : per_token) a.*t = tokens_of(a.*t, begin, count);
  return a;
}

// The chain of formulas over one slice of tokens.
class SiteExpectation {
 public:
  SiteExpectation(const SiteCase& c, const SiteMemory& memory, bool split_forward,
                  bool split_backward)
      : case_(c),
        memory_(memory),
        split_(split_forward),
        backward_(memory.pre_backward_args(c.spec), split_backward) {}

  void check(int64_t begin, int64_t count, Comparison* x_next, Comparison* d_x,
             Comparison* d_layer_output, Comparison* layer_input) {
    const auto pre_slice = slice_of(memory_.pre_args(case_.spec), begin, count,
                                    {&PreArgs::x, &PreArgs::layer_input, &PreArgs::z,
                                     &PreArgs::inv_rms, &PreArgs::h_post, &PreArgs::h_res});
    std::vector<Expected> gates = expect(pre_slice, split_);
    Expected &z = gates[1], &inv_rms = gates[2], &h_post = gates[3], &h_res = gates[4];
    InputErrors errors;
    errors.h_post = h_post.bound.data();
    errors.h_res = h_res.bound.data();
    errors.z = z.bound.data();
    errors.inv_rms = inv_rms.bound.data();
    layer_input->merge(compare(pre_slice.layer_input, gates[0]));

    auto post_slice = slice_of(memory_.post_args(case_.spec), begin, count,
                               {&PostArgs::x, &PostArgs::layer_output, &PostArgs::x_next});
    post_slice.h_post = exact(h_post);
    post_slice.h_res = exact(h_res);
    x_next->merge(compare(post_slice.x_next, expect(post_slice, errors)[0]));

    auto post_back = slice_of(memory_.post_backward_args(case_.spec), begin, count,
                              {&PostBackwardArgs::d_x_next, &PostBackwardArgs::x,
                               &PostBackwardArgs::layer_output, &PostBackwardArgs::d_layer_output,
                               &PostBackwardArgs::d_h_post, &PostBackwardArgs::d_h_res});
    post_back.h_post = exact(h_post);
    std::vector<Expected> back = expect(post_back, errors);
    d_layer_output->merge(compare(post_back.d_layer_output, back[0]));
    errors.d_h_post = back[1].bound.data();
    errors.d_h_res = back[2].bound.data();

    auto pre_back = slice_of(memory_.pre_backward_args(case_.spec), begin, count,
                             {&PreBackwardArgs::x, &PreBackwardArgs::d_layer_input,
                              &PreBackwardArgs::d_x_next, &PreBackwardArgs::d_x});
    pre_back.z = exact(z);
    pre_back.inv_rms = exact(inv_rms);
    pre_back.d_h_post = exact(back[1]);
    if (pre_back.d_h_res.present()) pre_back.d_h_res = exact(back[2]);
    d_x->merge(compare(pre_back.d_x, backward_.add(pre_back, errors)));
  }

  std::vector<Expected> parameters() const {
    return backward_.parameters(memory_.pre_backward_args(case_.spec));
  }

 private:
  const SiteCase& case_;
  const SiteMemory& memory_;
  bool split_;
  PreBackwardExpectation backward_;
};

// Rows [begin, end) of a gradient whose first index counts coefficients or groups.
Comparison compare_rows(const char* name, const Tensor& got, const Expected& want, int64_t begin,
                        int64_t end) {
  std::vector<int64_t> shape = want.shape;
  shape[0] = end - begin;
  Expected part(name, shape);
  const int64_t row = shape[0] == 0 ? 0 : part.elements() / shape[0];
  for (int64_t k = 0; k < part.elements(); ++k) {
    const size_t to = static_cast<size_t>(k), from = static_cast<size_t>(begin * row + k);
    part.value[to] = want.value[from];
    part.bound[to] = want.bound[from];
  }
  return compare(tokens_of(got, begin, end - begin), part);
}

void add_parameters(const SiteMemory& memory, const std::vector<Expected>& want,
                    std::vector<Comparison>* out) {
  const int64_t n = memory.layout.streams, m = memory.layout.coefficients();
  const int64_t bounds[] = {0, n, 2 * n, m};
  constexpr const char* kNames[][3] = {{"d_phi_pre", "d_phi_post", "d_phi_res"},
                                       {"d_alpha_pre", "d_alpha_post", "d_alpha_res"},
                                       {"d_bias_pre", "d_bias_post", "d_bias_res"}};
  for (size_t g = 0; g < 3; ++g)
    out->push_back(compare_rows(kNames[0][g], memory.d_phi, want[0], bounds[g], bounds[g + 1]));
  for (size_t g = 0; g < 3; ++g) {
    const int64_t group = static_cast<int64_t>(g);
    out->push_back(compare_rows(kNames[1][g], memory.d_alpha, want[1], group, group + 1));
  }
  for (size_t g = 0; g < 3; ++g)
    out->push_back(compare_rows(kNames[2][g], memory.d_bias, want[2], bounds[g], bounds[g + 1]));
  out->push_back(compare(memory.d_norm_weight, want[3]));
}

// Whether phi goes through the dot unit in two parts.
bool splits_phi(const SiteCase& c, const Runtime& runtime) {
  return c.dtype == DType::kBF16 && c.spec.phi_precision == Precision::kFloat32 &&
         choose_kernel(pre_kernels(), c.dtype, runtime).dot;
}

}  // namespace

bool SiteResult::ok() const {
  bool good = problem.empty() && !tensors.empty();
  for (const Comparison& c : tensors) good = good && c.ok() && c.cosine() > 0.999;
  return good;
}

SiteResult check_site(const SiteCase& given, const Runtime& runtime,
                      void (*progress)(int64_t, int64_t)) {
  SiteCase c = given;
  c.spec.streams = c.dims.streams;
  SiteResult result;
  const SiteMemory memory(c.spec, c.dims, c.dtype, c.param_dtype, true, c.seed);
  const Status status = run_site(c, memory, runtime);
  if (!status.ok()) {
    result.problem = status.message;
    return result;
  }
  const bool split = splits_phi(c, runtime);
  SiteExpectation expectation(c, memory, split,
                              split && c.spec.gradient_precision == Precision::kBFloat16);
  Comparison x_next, d_x, d_layer_output, layer_input;
  for (int64_t t = 0; t < c.dims.tokens; t += kSliceTokens) {
    if (progress != nullptr) progress(t, c.dims.tokens);
    expectation.check(t, std::min(kSliceTokens, c.dims.tokens - t), &x_next, &d_x, &d_layer_output,
                      &layer_input);
  }
  if (progress != nullptr) progress(c.dims.tokens, c.dims.tokens);
  result.tensors = {x_next, d_x, d_layer_output};
  add_parameters(memory, expectation.parameters(), &result.tensors);
  result.tensors.push_back(layer_input);
  return result;
}

}  // namespace mhc::verify
