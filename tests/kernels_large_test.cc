// Past 2^31 elements and past strides of 2^30: no index may wrap, no size may be refused. Memory is
// mapped and mostly never touched: tokens that are not looked at are zeros.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/pool.h"
#include "verify/cases_test.h"
#include "verify/expect_pre_backward.h"
#include "verify/site_memory.h"

namespace mhc::verify {
namespace {

// Zeros, given memory page by page as they are touched.
class Sparse {
 public:
  Sparse(DType dtype, std::vector<int64_t> shape, std::vector<int64_t> strides = {}) {
    tensor_ = make_tensor(nullptr, dtype, static_cast<int32_t>(shape.size()), shape[0],
                          shape.size() > 1 ? shape[1] : 0, shape.size() > 2 ? shape[2] : 0);
    int64_t last = 0;
    for (size_t i = 0; i < shape.size(); ++i) {
      if (!strides.empty()) tensor_.stride[i] = strides[i];
      last += (shape[i] - 1) * tensor_.stride[i];
    }
    bytes_ = static_cast<size_t>((last + 1) * size_of(dtype));
    tensor_.data = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(tensor_.data, MAP_FAILED);
    madvise(tensor_.data, bytes_, MADV_HUGEPAGE);  // a fault for 512 pages instead of each
  }
  ~Sparse() { munmap(tensor_.data, bytes_); }
  Sparse(const Sparse&) = delete;
  Sparse& operator=(const Sparse&) = delete;
  operator const Tensor&() const { return tensor_; }

 private:
  Tensor tensor_;
  size_t bytes_ = 0;
};

void expect_tokens(const char* what, const Tensor& got, const Expected& want) {
  const Comparison c = compare(got, want);
  EXPECT_TRUE(c.ok()) << what << "\n" << c.first_wrong;
}

// One site whose activations have the given strides; sampled tokens hold numbers.
class LargeSite {
 public:
  LargeSite(DType dtype, Dims dims, int64_t token_stride, int64_t stream_stride)
      : dims_(dims),
        small_(Spec{}, {1, dims.streams, dims.embedding}, dtype, DType::kF32, false, 3),
        x_(dtype, {dims.tokens, dims.streams, dims.embedding}, {token_stride, stream_stride, 1}),
        g_(dtype, {dims.tokens, dims.streams, dims.embedding}, {token_stride, stream_stride, 1}),
        y_(dtype, {dims.tokens, dims.embedding}),
        du_(dtype, {dims.tokens, dims.embedding}),
        layer_input_(dtype, {dims.tokens, dims.embedding}),
        d_y_(dtype, {dims.tokens, dims.embedding}),
        z_(DType::kF32, {dims.tokens, 24}),
        inv_rms_(DType::kF32, {dims.tokens}),
        h_post_(DType::kF32, {dims.tokens, dims.streams}),
        h_res_(DType::kF32, {dims.tokens, dims.streams, dims.streams}),
        d_h_post_(DType::kF32, {dims.tokens, dims.streams}),
        d_h_res_(DType::kF32, {dims.tokens, dims.streams, dims.streams}) {
    const std::set<int64_t> samples{0, 1, dims.tokens / 2, dims.tokens - 2, dims.tokens - 1};
    samples_.assign(samples.begin(), samples.end());
    for (const int64_t t : samples_) {
      for (const Tensor& tensor :
           {static_cast<const Tensor&>(x_), static_cast<const Tensor&>(g_),
            static_cast<const Tensor&>(y_), static_cast<const Tensor&>(du_)}) {
        fill(tokens_of(tensor, t, 1), static_cast<uint64_t>(10 * t), 1, 0.1);
      }
    }
  }

  void run_and_check(const Runtime& runtime) {
    check_pre(runtime);
    check_post_backward(runtime);
    check_pre_backward(runtime);  // d_x over g
    check_post(runtime);          // x_next over x
  }

 private:
  template <class Args>
  void slice(Args* a, int64_t t, std::initializer_list<Tensor Args::*> tensors) {
    for (Tensor Args::*tensor : tensors) a->*tensor = tokens_of(a->*tensor, t, 1);
  }

  template <class Args>
  Buffer make_workspace(Args* a, size_t bytes) {
    Buffer workspace(DType::kF32, {static_cast<int64_t>(bytes / 4 + 1)});
    a->workspace = {workspace.tensor().data, bytes};
    return workspace;
  }

  bool split(const Runtime& runtime) const {
    Case c;
    c.op = Op::kPre;
    c.dtype = static_cast<const Tensor&>(x_).dtype;
    return splits_phi(c, expected_row(c, runtime));
  }

  void check_pre(const Runtime& runtime) {
    PreArgs a;
    a.x = x_;
    a.params = small_.params();
    a.layer_input = layer_input_;
    a.z = z_;
    a.inv_rms = inv_rms_;
    a.h_post = h_post_;
    a.h_res = h_res_;
    const Buffer w =
        make_workspace(&a, pre_workspace_bytes(a.spec, a.kind, dims_, a.x.dtype, runtime));
    const Status status = pre(a, runtime);
    ASSERT_TRUE(status.ok()) << status.message;
    for (const int64_t t : samples_) {
      PreArgs s = a;
      slice(&s, t,
            {&PreArgs::x, &PreArgs::layer_input, &PreArgs::z, &PreArgs::inv_rms, &PreArgs::h_post,
             &PreArgs::h_res});
      const std::vector<Expected> want = expect(s, split(runtime));
      const std::vector<Output> got = outputs_of(s);
      for (size_t i = 0; i < got.size(); ++i) expect_tokens("pre", got[i].tensor, want[i]);
    }
  }

  void check_post_backward(const Runtime& runtime) {
    PostBackwardArgs a;
    a.d_x_next = g_;
    a.x = x_;
    a.layer_output = y_;
    a.h_post = h_post_;
    a.d_layer_output = d_y_;
    a.d_h_post = d_h_post_;
    a.d_h_res = d_h_res_;
    const Status status = post_backward(a, runtime);
    ASSERT_TRUE(status.ok()) << status.message;
    for (const int64_t t : samples_) {
      PostBackwardArgs s = a;
      slice(&s, t,
            {&PostBackwardArgs::d_x_next, &PostBackwardArgs::x, &PostBackwardArgs::layer_output,
             &PostBackwardArgs::h_post, &PostBackwardArgs::d_layer_output,
             &PostBackwardArgs::d_h_post, &PostBackwardArgs::d_h_res});
      const std::vector<Expected> want = expect(s);
      const std::vector<Output> got = outputs_of(s);
      for (size_t i = 0; i < got.size(); ++i)
        expect_tokens("post_backward", got[i].tensor, want[i]);
    }
  }

  void check_pre_backward(const Runtime& runtime) {
    PreBackwardArgs a;
    a.x = x_;
    a.params = small_.params();
    a.z = z_;
    a.inv_rms = inv_rms_;
    a.d_layer_input = du_;
    a.d_h_post = d_h_post_;
    a.d_h_res = d_h_res_;
    a.d_x_next = g_;
    a.d_x = g_;
    a.d_phi = small_.d_phi;
    a.d_bias = small_.d_bias;
    PreBackwardExpectation expectation(a, false);
    std::vector<Expected> d_x;
    for (const int64_t t : samples_) {
      PreBackwardArgs s = a;
      slice(&s, t,
            {&PreBackwardArgs::x, &PreBackwardArgs::z, &PreBackwardArgs::inv_rms,
             &PreBackwardArgs::d_layer_input, &PreBackwardArgs::d_h_post, &PreBackwardArgs::d_h_res,
             &PreBackwardArgs::d_x_next, &PreBackwardArgs::d_x});
      d_x.push_back(expectation.add(s));
    }
    const std::vector<Expected> parameters = expectation.parameters(a);
    const Buffer w =
        make_workspace(&a, pre_backward_workspace_bytes(a.spec, a.kind, dims_, a.x.dtype, runtime));
    const Status status = pre_backward(a, runtime);
    ASSERT_TRUE(status.ok()) << status.message;
    for (size_t i = 0; i < samples_.size(); ++i)
      expect_tokens("pre_backward", tokens_of(a.d_x, samples_[i], 1), d_x[i]);
    expect_tokens("pre_backward", a.d_phi, parameters[0]);
    expect_tokens("pre_backward", a.d_bias, parameters[1]);
  }

  void check_post(const Runtime& runtime) {
    PostArgs a;
    a.x = x_;
    a.layer_output = y_;
    a.h_post = h_post_;
    a.h_res = h_res_;
    a.x_next = x_;
    std::vector<Expected> want;
    std::vector<Tensor> got;
    for (const int64_t t : samples_) {
      PostArgs s = a;
      slice(&s, t,
            {&PostArgs::x, &PostArgs::layer_output, &PostArgs::h_post, &PostArgs::h_res,
             &PostArgs::x_next});
      want.push_back(expect(s)[0]);
      got.push_back(s.x_next);
    }
    const Status status = post(a, runtime);
    ASSERT_TRUE(status.ok()) << status.message;
    for (size_t i = 0; i < want.size(); ++i) expect_tokens("post", got[i], want[i]);
  }

  Dims dims_;
  SiteMemory small_;  // parameters and their gradients
  Sparse x_, g_, y_, du_, layer_input_, d_y_, z_, inv_rms_, h_post_, h_res_, d_h_post_, d_h_res_;
  std::vector<int64_t> samples_;
};

class Large : public testing::TestWithParam<Isa> {};

TEST_P(Large, StridesOfTwoToTheThirty) {
  if (!is_available(GetParam())) return;
  const int64_t stride = int64_t{1} << 30;
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    LargeSite(dtype, {3, 4, 130}, stride, 130).run_and_check(runtime_of(GetParam()));
    LargeSite(dtype, {3, 4, 130}, 130, stride).run_and_check(runtime_of(GetParam()));
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Large,
                         testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16),
                         [](const auto& test) { return std::string(name_of(test.param)); });

int64_t available_gibibytes() {
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("MemAvailable:", 0) == 0) return std::stoll(line.substr(13)) >> 20;
  }
  return 0;
}

// 2^31 + 2^15 elements, on the fastest kernels: about 10 GB are written in the course of it, 5 at a
// time.
TEST(LargeProblem, MoreThanTwoToTheThirtyOneElements) {
  if (kSmallTests) return;
  if (available_gibibytes() < 14) GTEST_SKIP() << "less than 14 GiB of memory";
  const std::unique_ptr<ThreadPool> pool(ThreadPool::create(0, false));
  Runtime runtime;
  runtime.executor = pool->executor();
  const Dims dims{(1 << 16) + 1, 4, 8192};
  LargeSite(DType::kBF16, dims, dims.flat(), dims.embedding).run_and_check(runtime);
}

}  // namespace
}  // namespace mhc::verify
