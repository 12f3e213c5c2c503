// Every operation, its arguments spoilt one at a time: an error that names operation, argument,
// wanted and got, and no output touched.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "api/operation_list_test.h"

namespace mhc::api {
namespace {

class BadInput : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Operation> make(mhc_dtype activation = MHC_BF16) {
    Sizes sizes;
    sizes.activation = activation;
    return make_operation(GetParam(), sizes);
  }

  // wanted and got: pieces of the message behind "<operation>: <argument>: expected ".
  void expect_refusal(const Operation& op, const std::string& argument, const std::string& wanted,
                      const std::string& got, mhc_status status = MHC_INVALID_ARGUMENT) {
    SCOPED_TRACE(op.name + ": " + argument + ": ..." + wanted + "..." + got);
    EXPECT_EQ(op.call(nullptr), status);
    const std::string message = mhc_last_error();
    EXPECT_EQ(message.rfind(op.name + ": " + argument + ": expected ", 0), 0u) << message;
    EXPECT_NE(message.find(wanted), std::string::npos) << message;
    EXPECT_NE(message.find("got"), std::string::npos) << message;
    EXPECT_NE(message.find(got), std::string::npos) << message;
    EXPECT_TRUE(op.outputs_untouched());
    ++cases_;
  }

  // Calls f(op, argument) on fresh arguments for each tensor.
  template <class F>
  void for_each_tensor(const F& f) {
    const size_t count = make()->arguments.size();
    for (size_t i = 0; i < count; ++i) {
      std::unique_ptr<Operation> op = make();
      f(*op, op->arguments[i]);
    }
  }

  void TearDown() override { RecordProperty("cases", cases_); }

  int cases_ = 0;
};

std::string name_of_extent(char letter) {
  return letter == 'g' ? "groups=" : std::string(1, letter) + "=";
}

TEST_P(BadInput, GoodArgumentsPassAndWriteEveryOutput) {
  for (mhc_dtype activation : {MHC_F32, MHC_BF16, MHC_F16, MHC_F64}) {
    const auto op = make(activation);
    EXPECT_EQ(op->call(nullptr), MHC_OK) << mhc_last_error();
    EXPECT_TRUE(op->outputs_written());
  }
}

TEST_P(BadInput, NoTokensIsValidWithoutAnyMemory) {
  for (mhc_dtype activation : {MHC_BF16, MHC_F64}) {
    Sizes sizes;
    sizes.tokens = 0;
    sizes.activation = activation;
    const auto op = make_operation(GetParam(), sizes);
    for (const Argument& a : op->arguments)
      EXPECT_EQ(a.tensor->data == nullptr, a.letters[0] == 'T');
    EXPECT_EQ(op->call(nullptr), MHC_OK) << mhc_last_error();
    EXPECT_TRUE(op->outputs_written());  // sums over no tokens are zero
  }
}

TEST_P(BadInput, Rank) {
  for_each_tensor([&](Operation& op, Argument& a) {
    a.tensor->rank = a.tensor->rank == 1 ? 2 : a.tensor->rank - 1;
    expect_refusal(op, a.name, "shape [", "], got [");
  });
  for (int32_t rank : {-1, 4, 1000}) {
    for_each_tensor([&](Operation& op, Argument& a) {
      a.tensor->rank = rank;
      expect_refusal(op, a.name, "shape [", "got rank " + std::to_string(rank));
    });
  }
}

TEST_P(BadInput, Extents) {
  for (int64_t change : {-1, 1}) {
    for (size_t i = 0; i < 3; ++i) {
      for_each_tensor([&](Operation& op, Argument& a) {
        if (i >= a.letters.size()) return;
        const char letter = a.letters[i];
        // These fix what the others must agree with: then another argument is named.
        if (a.decisive && (letter == 'T' || letter == 'D' || (letter == 'n' && op.spec == nullptr)))
          return;
        a.tensor->shape[i] += change;
        expect_refusal(op, a.name, name_of_extent(letter), std::to_string(a.tensor->shape[i]));
      });
    }
  }
}

TEST_P(BadInput, OtherArgumentsMustAgreeWithTheDecisiveOne) {
  for (char letter : {'T', 'D'}) {
    auto op = make();
    Argument* decisive = nullptr;
    for (Argument& a : op->arguments) {
      if (a.decisive) decisive = &a;
    }
    const size_t at = decisive->letters.find(letter);
    if (at == std::string::npos) continue;
    decisive->tensor->shape[at] -= 1;
    EXPECT_EQ(op->call(nullptr), MHC_INVALID_ARGUMENT);
    const std::string message = mhc_last_error();
    EXPECT_NE(
        message.find(std::string(1, letter) + "=" + std::to_string(decisive->tensor->shape[at])),
        std::string::npos)
        << message;
    EXPECT_TRUE(op->outputs_untouched());
  }
}

TEST_P(BadInput, NegativeAndEmptyExtents) {
  for (int64_t extent : {int64_t{0}, int64_t{-1}, INT64_MIN}) {
    for (size_t i = 0; i < 3; ++i) {
      for_each_tensor([&](Operation& op, Argument& a) {
        if (i >= a.letters.size() || (extent == 0 && a.letters[i] == 'T' && a.decisive)) return;
        a.tensor->shape[i] = extent;
        expect_refusal(op, a.name, "shape [", std::to_string(extent));
      });
    }
  }
}

TEST_P(BadInput, Type) {
  for (mhc_dtype type : {-1, 4, 1 << 30}) {
    for_each_tensor([&](Operation& op, Argument& a) {
      a.tensor->dtype = type;
      expect_refusal(op, a.name, "type ", "got an unknown type");
    });
  }
  for_each_tensor([&](Operation& op, Argument& a) {
    if (a.decisive && a.rows) return;  // every type is an activation type
    a.tensor->dtype = MHC_F16;
    expect_refusal(op, a.name, "type ", "got f16");
  });
}

TEST_P(BadInput, NullData) {
  for_each_tensor([&](Operation& op, Argument& a) {
    a.tensor->data = nullptr;
    expect_refusal(op, a.name, "data for shape [", "got null");
  });
}

TEST_P(BadInput, AddressThatSplitsAnElement) {
  for_each_tensor([&](Operation& op, Argument& a) {
    a.tensor->data = static_cast<char*>(a.tensor->data) + 1;
    expect_refusal(op, a.name, "an address that is a multiple of ", "got 0x");
    a.tensor->data = static_cast<char*>(a.tensor->data) - 1;
  });
}

TEST_P(BadInput, Strides) {
  for_each_tensor([&](Operation& op, Argument& a) {
    mhc_tensor& t = *a.tensor;
    if (t.shape[t.rank - 1] == 1) return;  // a stride that is never taken
    t.stride[t.rank - 1] = 2;
    if (a.rows) {
      for (int32_t i = 0; i + 1 < t.rank; ++i) t.stride[i] *= 2;
    }
    expect_refusal(op, a.name, a.rows ? "stride 1 along D" : "contiguous strides [", "got");
  });
  for_each_tensor([&](Operation& op, Argument& a) {
    if (a.tensor->rank < 2) return;
    a.tensor->stride[0] = -a.tensor->stride[0];
    expect_refusal(op, a.name, a.rows ? "strides of at least 0" : "contiguous strides [", "got [-");
  });
  for_each_tensor([&](Operation& op, Argument& a) {
    if (a.rows || a.tensor->rank < 2) return;
    a.tensor->stride[0] += 1;
    expect_refusal(op, a.name, "contiguous strides [", "got [");
  });
}

TEST_P(BadInput, OutputsWhoseElementsCoincide) {
  for_each_tensor([&](Operation& op, Argument& a) {
    if (!a.output || !a.rows) return;
    const mhc_tensor good = *a.tensor;
    for (int64_t stride : {int64_t{0}, int64_t{1}, good.stride[0] - 1}) {
      a.tensor->stride[0] = stride;
      expect_refusal(op, a.name, "strides that keep the elements of an output apart", "got [");
    }
    if (good.rank < 3) return;
    *a.tensor = good;
    a.tensor->stride[1] = good.stride[1] - 1;
    expect_refusal(op, a.name, "strides that keep the elements of an output apart", "got [");
  });
}

TEST_P(BadInput, SizesBeyond63Bits) {
  for_each_tensor([&](Operation& op, Argument& a) {
    a.tensor->stride[0] = INT64_MAX / 2;
    if (a.tensor->shape[0] > 1) expect_refusal(op, a.name, "less than 2^63 bytes", "got shape [");
  });
  for_each_tensor([&](Operation& op, Argument& a) {
    if (!a.decisive || !a.rows) return;
    a.tensor->shape[0] = INT64_MAX / 8;
    expect_refusal(op, a.name, "less than 2^63 bytes", std::to_string(INT64_MAX / 8));
  });
}

TEST_P(BadInput, MissingTensors) {
  for_each_tensor([&](Operation& op, Argument& a) {
    if (a.optional) return;
    a.tensor->rank = 0;
    EXPECT_EQ(op.call(nullptr), MHC_INVALID_ARGUMENT) << a.name;
    const std::string message = mhc_last_error();
    EXPECT_EQ(message.rfind(op.name + ": " + a.name + ": expected ", 0), 0u) << message;
    EXPECT_TRUE(message.ends_with("got no tensor") || message.ends_with("got none")) << message;
    *a.tensor = mhc_tensor{};
    EXPECT_TRUE(op.outputs_untouched());
  });
}

// Any optional tensor may be absent; an output that is absent is not written, the others are.
TEST_P(BadInput, OptionalTensorsMayBeAbsent) {
  for_each_tensor([&](Operation& op, Argument& a) {
    if (!a.optional) return;
    *a.tensor = mhc_tensor{};
    if (a.name == "norm_weight") {
      if (Argument* gradient = op.find("d_norm_weight")) *gradient->tensor = mhc_tensor{};
    }
    EXPECT_EQ(op.call(nullptr), MHC_OK) << a.name << ": " << mhc_last_error();
    EXPECT_TRUE(op.outputs_written()) << a.name;
  });
}

TEST_P(BadInput, OutputsThatOverlapAnotherArgument) {
  const size_t count = make()->arguments.size();
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = 0; k < count; ++k) {
      auto op = make();
      Argument& out = op->arguments[i];
      const Argument& other = op->arguments[k];
      if (i == k || !out.output) continue;
      bool alias = false;
      for (const auto& [o, in] : op->aliases) alias = alias || (o == out.name && in == other.name);
      void* const own = out.tensor->data;
      // From the other's last element on, as far as the alignment of both permits.
      const int64_t bytes = other.bytes;
      char* last = static_cast<char*>(other.tensor->data) + bytes -
                   (other.tensor->dtype == MHC_BF16 ? 2 : 4);
      const uintptr_t size = out.tensor->dtype == MHC_BF16 ? 2 : 4;
      out.tensor->data = last - reinterpret_cast<uintptr_t>(last) % size;
      EXPECT_EQ(op->call(nullptr), MHC_INVALID_ARGUMENT) << out.name << " over " << other.name;
      const std::string message = mhc_last_error();
      const std::string apart = "expected memory apart from ";
      const bool names_both =
          message.rfind(op->name + ": " + out.name + ": " + apart + other.name, 0) == 0 ||
          (other.output &&
           message.rfind(op->name + ": " + other.name + ": " + apart + out.name, 0) == 0);
      EXPECT_TRUE(names_both) << message;
      EXPECT_NE(message.find("got [0x"), std::string::npos) << message;
      out.tensor->data = own;
      EXPECT_TRUE(op->outputs_untouched());
      ++cases_;

      // Exactly the same elements: only where the contract says so.
      const bool same_shape =
          out.letters == other.letters && out.tensor->dtype == other.tensor->dtype;
      if (!same_shape) continue;
      out.tensor->data = other.tensor->data;
      EXPECT_EQ(op->call(nullptr), alias ? MHC_OK : MHC_INVALID_ARGUMENT)
          << out.name << " over " << other.name << ": " << mhc_last_error();
    }
  }
}

TEST_P(BadInput, Workspace) {
  auto op = make();
  if (op->workspace == nullptr) return;
  const mhc_workspace good = *op->workspace;
  ASSERT_GT(good.bytes, 0u);
  const std::string needed = std::to_string(good.bytes) + " bytes";
  *op->workspace = {good.data, good.bytes - 1};
  expect_refusal(*op, "workspace", needed, "got " + std::to_string(good.bytes - 1));
  *op->workspace = {nullptr, good.bytes};
  expect_refusal(*op, "workspace", needed, "null");
  *op->workspace = {nullptr, 0};
  expect_refusal(*op, "workspace", needed, "null");
  *op->workspace = good;
  for (const Argument& a : op->arguments) {
    const uintptr_t end = reinterpret_cast<uintptr_t>(good.data) + good.bytes;
    a.tensor->data = reinterpret_cast<void*>((end - 1) / 8 * 8);
    EXPECT_EQ(op->call(nullptr), MHC_INVALID_ARGUMENT);
    const std::string message = mhc_last_error();
    EXPECT_NE(message.find("expected memory apart from"), std::string::npos) << message;
    EXPECT_NE(message.find(a.name), std::string::npos) << message;
    EXPECT_NE(message.find("workspace"), std::string::npos) << message;
    EXPECT_TRUE(op->outputs_untouched());
    a.tensor->data = a.memory;
    ++cases_;
  }
}

TEST_P(BadInput, StructSizeAndNullPointers) {
  auto op = make();
  EXPECT_EQ(op->call_without_args(nullptr), MHC_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(mhc_last_error()), op->name + ": args: expected a pointer, got null");
  const size_t good = *op->struct_size;
  for (size_t size : {size_t{0}, good - 8, good + 8}) {
    *op->struct_size = size;
    expect_refusal(*op, "args.size", std::to_string(good) + ", the size of mhc_",
                   std::to_string(size));
  }
  *op->struct_size = good;
  if (op->spec == nullptr) return;
  *op->spec = nullptr;
  expect_refusal(*op, "spec", "a pointer", "got null");
  *op->spec = &op->spec_value;
  op->spec_value.size = 12;
  expect_refusal(*op, "spec.size", std::to_string(sizeof(mhc_spec)), "got 12");
}

TEST_P(BadInput, Spec) {
  if (make()->spec == nullptr) return;
  const auto spoil = [&](const std::string& field, const std::string& wanted,
                         const std::string& got, const std::function<void(mhc_spec*)>& f,
                         mhc_status status = MHC_INVALID_ARGUMENT) {
    auto op = make();
    f(&op->spec_value);
    expect_refusal(*op, "spec." + field, wanted, got, status);
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  for (int64_t n : {int64_t{0}, int64_t{-4}, int64_t{17}, INT64_MAX}) {
    spoil("streams", "1 to 16 for manifold sinkhorn", std::to_string(n),
          [n](mhc_spec* s) { s->streams = n; });
  }
  for (int64_t n : {0, 6, 16}) {
    spoil("streams", "1 to 5 for manifold permutation", std::to_string(n), [n](mhc_spec* s) {
      s->manifold = MHC_PERMUTATION;
      s->streams = n;
    });
  }
  for (int32_t id : {-1, 99}) {
    spoil("manifold", "sinkhorn (0)", std::to_string(id), [id](mhc_spec* s) { s->manifold = id; });
  }
  for (int32_t i : {0, -3, 1001, INT32_MAX}) {
    spoil("iterations", "1 to 1000", std::to_string(i), [i](mhc_spec* s) { s->iterations = i; });
  }
  spoil("form", "softmax (0)", "got 1", [](mhc_spec* s) { s->form = 1; }, MHC_UNSUPPORTED);
  for (double v : {-1e-6, nan, inf, 1e39}) {
    spoil("eps", "a finite number of at least 0", "got ", [v](mhc_spec* s) { s->eps = v; });
    spoil("pre_eps", "a finite number of at least 0", "got ", [v](mhc_spec* s) { s->pre_eps = v; });
  }
  for (double v : {0.0, -1e-6, nan, inf, 1e-46, 1e39}) {
    spoil("norm_eps", "a finite number of at least 1.2e-38", "got ",
          [v](mhc_spec* s) { s->norm_eps = v; });
  }
  for (double v : {nan, inf, -inf, 1e39}) {
    spoil("post_mult", "a finite number", "got ", [v](mhc_spec* s) { s->post_mult = v; });
  }
  const struct {
    const char* name;
    int32_t mhc_spec::*field;
    const char* wanted;
  } enums[] = {
      {"matrix_order", &mhc_spec::matrix_order, "input_output (0) or output_input (1)"},
      {"norm_form", &mhc_spec::norm_form, "inside (0) or outside (1)"},
      {"phi_precision", &mhc_spec::phi_precision, "float32 (0) or bfloat16 (1)"},
      {"gradient_precision", &mhc_spec::gradient_precision, "float32 (0) or bfloat16 (1)"},
      {"h_pre_precision", &mhc_spec::h_pre_precision, "float32 (0) or activation (1)"},
      {"h_post_precision", &mhc_spec::h_post_precision, "float32 (0) or activation (1)"},
      {"h_res_precision", &mhc_spec::h_res_precision, "float32 (0) or activation (1)"},
  };
  for (const auto& e : enums) {
    for (int32_t v : {-1, 2, 77}) {
      spoil(e.name, e.wanted, std::to_string(v), [&](mhc_spec* s) { s->*e.field = v; });
    }
  }
}

TEST_P(BadInput, PlainNumbers) {
  auto op = make();
  if (op->accumulate != nullptr) {
    for (int32_t v : {-1, 2, 256}) {
      *op->accumulate = v;
      expect_refusal(*op, "accumulate", "0 or 1", std::to_string(v));
    }
    *op->accumulate = 0;
  }
  if (op->kind != nullptr) {
    *op->kind = 2;
    expect_refusal(*op, "kind", "site (0) or head (1)", "got 2");
    *op->kind = MHC_SITE;
  }
  if (op->mode != nullptr) {
    *op->mode = 2;
    expect_refusal(*op, "mode", "sum (0) or mean (1)", "got 2");
    *op->mode = MHC_SUM;
  }
  if (op->streams != nullptr) {
    for (int64_t v : {0, -1, 17}) {
      *op->streams = v;
      expect_refusal(*op, "streams", "1 to 16", std::to_string(v));
    }
  }
  if (op->embedding_total != nullptr) {
    for (int64_t v : {int64_t{0}, int64_t{-5}, INT64_MAX}) {
      *op->embedding_total = v;
      expect_refusal(*op, "embedding_total", "1 to ", std::to_string(v));
    }
  }
}

// A gradient may have its parameter's narrow type, but not when it is added to what is there.
TEST_P(BadInput, NarrowGradients) {
  auto op = make();
  if (op->accumulate == nullptr) return;
  for (const char* name : {"phi", "alpha", "bias", "norm_weight"}) {
    Argument* parameter = op->find(name);
    Argument* gradient = op->find(std::string("d_") + name);
    if (parameter == nullptr || gradient == nullptr) continue;
    gradient->tensor->dtype = MHC_BF16;
    *op->accumulate = 0;
    expect_refusal(*op, gradient->name, "type f32", "got bf16");  // the parameter is f32
    parameter->tensor->dtype = MHC_BF16;
    *op->accumulate = 1;
    expect_refusal(*op, gradient->name, "type f32, got", "got bf16");
    *op->accumulate = 0;
    EXPECT_EQ(op->call(nullptr), MHC_OK) << mhc_last_error();
    gradient->tensor->dtype = MHC_F32;
    op->poison_outputs();
  }
}

INSTANTIATE_TEST_SUITE_P(Operations, BadInput, testing::ValuesIn(operation_names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace mhc::api
