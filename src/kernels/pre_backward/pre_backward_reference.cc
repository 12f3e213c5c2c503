#include "kernels/pre_backward/pre_backward_reference.h"

#include "base/fpenv.h"

namespace mhc {
namespace {

using reference::kTaskTokens;
using Array = std::vector<double>;

// Tokens whose x is held in double at a time: 6 MiB at n = 4, D = 3072.
constexpr int64_t kBlockTokens = 4 * kTaskTokens;

Array array(int64_t size) { return Array(static_cast<size_t>(size)); }

const double* data_or_null(const Array& a) { return a.empty() ? nullptr : a.data(); }

class Driver {
 public:
  Driver(const PreBackwardArgs& args, const Executor& executor)
      : args_(args),
        executor_(executor),
        dims_{args.x.shape[0], args.x.shape[1], args.x.shape[2]},
        layout_(gate_layout(args.spec, args.kind)),
        gates_(static_cast<size_t>(executor.workers()),
               reference::Gates<double>(args.spec, args.kind, dims_.flat())),
        phi_(reference::load_all(args.params.phi)),
        norm_weight_(reference::load_all(args.params.norm_weight)),
        alpha_(reference::load_all(args.params.alpha)),
        bias_(reference::load_all(args.params.bias)),
        phi_eff_(phi_.size()),
        x_(array(held_tokens() * dims_.flat())),
        z_(array(args.z.present() ? held_tokens() * m() : 0)),
        d_logit_(array(held_tokens() * m())),
        d_q_(array(held_tokens() * m())),
        d_alpha_(array(layout_.groups())),
        d_bias_(array(m())),
        scratch_(executor, std::min(dims_.tokens, kTaskTokens) * scratch_per_token()) {
    reference::fold_norm_weight<double>(args.spec, m(), dims_.flat(), phi_.data(),
                                        data_or_null(norm_weight_), phi_eff_.data());
    if (wants_d_phi()) d_phi_ = array(m() * dims_.flat());
  }

  void run() {
    for (int64_t begin = 0; begin < dims_.tokens; begin += kBlockTokens) {
      const int64_t count = std::min(kBlockTokens, dims_.tokens - begin);
      executor_.run(ceil_div(count, kTaskTokens), [&](int64_t task, int32_t worker) {
        const int64_t first = task * kTaskTokens;
        run_tokens(begin, first, std::min(kTaskTokens, count - first), worker);
      });
      if (wants_d_phi()) {
        executor_.run(ceil_div(dims_.flat(), kFeatureBlock), [&](int64_t task, int32_t) {
          const int64_t first = task * kFeatureBlock;
          reference::pre_backward_d_phi(count, m(), dims_.flat(), first,
                                        std::min(kFeatureBlock, dims_.flat() - first), d_q_.data(),
                                        x_.data(), d_phi_.data());
        });
      }
      if (args_.z.present()) {
        reference::pre_backward_d_gate_parameters(count, layout_, d_logit_.data(), z_.data(),
                                                  d_alpha_.data(), d_bias_.data());
      }
    }
    store_parameter_gradients();
  }

 private:
  int64_t m() const { return layout_.coefficients(); }
  int64_t held_tokens() const { return std::min(dims_.tokens, kBlockTokens); }
  bool wants_d_phi() const { return args_.d_phi.present() || args_.d_norm_weight.present(); }
  int64_t scratch_per_token() const {
    const int64_t n = dims_.streams;
    return 3 * dims_.flat() + dims_.embedding + n * (n + 2) + 2;
  }

  // Tokens [first, first + count) of the block that begins at token block.
  void run_tokens(int64_t block, int64_t first, int64_t count, int32_t worker) {
    const int64_t n = dims_.streams;
    const int64_t begin = block + first;
    reference::Pieces pieces(scratch_.of(worker));
    const auto load_to = [&](const Tensor& tensor, double* out) {
      if (tensor.present()) reference::load_rows(tensor, begin, begin + count, out);
      return out;
    };
    const auto load = [&](const Tensor& tensor, int64_t size) {
      return load_to(tensor, pieces.take_if(tensor.present(), count * size));
    };
    reference::PreBackwardArrays<double> a;
    a.x = load_to(args_.x, x_.data() + first * dims_.flat());
    a.phi_eff = phi_eff_.data();
    a.alpha = alpha_.data();
    a.bias = bias_.data();
    a.z = args_.z.present() ? load_to(args_.z, z_.data() + first * m()) : nullptr;
    a.inv_rms = load(args_.inv_rms, 1);
    a.d_layer_input = load(args_.d_layer_input, dims_.embedding);
    a.d_h_pre = load(args_.d_h_pre, n);
    a.d_h_post = load(args_.d_h_post, n);
    a.d_h_res = load(args_.d_h_res, n * n);
    a.d_x_next = load(args_.d_x_next, dims_.flat());
    a.d_x_post = load(args_.d_x_post, dims_.flat());
    a.d_logit = d_logit_.data() + first * m();
    a.d_q = d_q_.data() + first * m();
    a.d_sum_squares = pieces.take(count);
    if (a.z == nullptr) {
      std::fill_n(a.d_q, count * m(), 0.0);
      std::fill_n(a.d_sum_squares, count, 0.0);
      load_to(args_.d_q, a.d_q);
      load_to(args_.d_sum_squares, a.d_sum_squares);
    }
    const Dims dims{count, n, dims_.embedding};
    reference::Gates<double>* gates = &gates_[static_cast<size_t>(worker)];
    reference::pre_backward_gates(args_.spec, dims, gates, a);
    if (!args_.d_x.present()) return;
    a.d_x = pieces.take(count * dims_.flat());
    reference::pre_backward_d_x(args_.spec, args_.x.dtype, dims, gates, a);
    reference::store_rows(a.d_x, args_.d_x, begin, begin + count);
  }

  // Also at T = 0, where each sum over tokens is zero.
  void store_parameter_gradients() {
    const auto store = [&](const Array& values, const Tensor& tensor) {
      if (tensor.present()) reference::store_all(values, tensor, args_.accumulate);
    };
    store(d_alpha_, args_.d_alpha);
    store(d_bias_, args_.d_bias);
    if (!wants_d_phi()) return;
    Array d_norm_weight = array(args_.d_norm_weight.present() ? dims_.flat() : 0);
    reference::unfold_norm_weight<double>(m(), dims_.flat(), phi_.data(),
                                          data_or_null(norm_weight_), d_phi_.data(),
                                          d_norm_weight.empty() ? nullptr : d_norm_weight.data());
    store(d_phi_, args_.d_phi);
    store(d_norm_weight, args_.d_norm_weight);
  }

  const PreBackwardArgs& args_;
  const Executor& executor_;
  Dims dims_;
  GateLayout layout_;
  std::vector<reference::Gates<double>> gates_;
  Array phi_, norm_weight_, alpha_, bias_, phi_eff_;
  Array x_, z_, d_logit_, d_q_;  // of one block of tokens
  Array d_phi_, d_alpha_, d_bias_;
  reference::WorkerScratch scratch_;
};

}  // namespace

void pre_backward_reference(const PreBackwardArgs& args, const Executor& executor) {
  const FloatingPointPolicy policy;
  Driver(args, executor).run();
}

void pre_backward_reference(const PreBackwardArgs& args) {
  pre_backward_reference(args, serial_executor());
}

}  // namespace mhc
