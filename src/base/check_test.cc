#include "base/check.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/overlap.h"

namespace mhc {
namespace {

// ---- Which tensors share memory
// -----------------------------------------------------------------------------

alignas(64) float memory[4096];

Tensor view(int64_t offset, std::vector<int64_t> shape, std::vector<int64_t> stride) {
  Tensor t;
  t.data = memory + offset;
  t.rank = static_cast<int32_t>(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    t.shape[i] = shape[i];
    t.stride[i] = stride[i];
  }
  return t;
}

template <class F>
void for_each_element(const Tensor& t, const F& f) {
  const int64_t b = t.rank > 1 ? t.shape[1] : 1;
  const int64_t c = t.rank > 2 ? t.shape[2] : 1;
  for (int64_t i = 0; i < t.shape[0]; ++i) {
    for (int64_t j = 0; j < b; ++j) {
      for (int64_t k = 0; k < c; ++k) {
        f(static_cast<size_t>(t.at<float>(i, j, k) - memory));
      }
    }
  }
}

std::vector<int32_t> marks(const Tensor& t) {
  std::vector<int32_t> count(4096);
  for_each_element(t, [&](size_t at) { ++count[at]; });
  return count;
}

TEST(Overlap, DistinctElementsByEnumeration) {
  for (int64_t s0 : {0, 1, 2, 3, 5, 6, 12, 30}) {
    for (int64_t s1 : {0, 1, 2, 3, 4, 5, 20}) {
      for (int64_t n0 : {1, 2, 4}) {
        for (int64_t n1 : {1, 2, 3}) {
          const Tensor t = view(0, {n0, n1, 3}, {s0, s1, 1});
          bool distinct = true;
          for (int32_t count : marks(t)) distinct = distinct && count <= 1;
          // Strides that interleave without meeting may be refused, colliding ones must be.
          if (!distinct) {
            EXPECT_FALSE(elements_are_distinct(t)) << n0 << " " << n1 << " " << s0 << " " << s1;
          }
        }
      }
    }
  }
  EXPECT_TRUE(elements_are_distinct(view(0, {4, 3, 5}, {15, 5, 1})));
  EXPECT_TRUE(elements_are_distinct(view(0, {4, 3, 5}, {5, 20, 1})));   // stream-major
  EXPECT_TRUE(elements_are_distinct(view(0, {4, 3, 5}, {100, 7, 1})));  // gaps
  EXPECT_TRUE(elements_are_distinct(view(0, {1, 3, 5}, {0, 5, 1})));  // a stride that is never used
}

TEST(Overlap, DisjointRowsByEnumeration) {
  int32_t proven = 0;
  for (int64_t offset = 0; offset < 40; ++offset) {
    for (const std::vector<int64_t>& strides :
         {std::vector<int64_t>{24, 12, 1}, {12, 3, 1}, {36, 4, 1}}) {
      const Tensor a = view(100, {3, 2, 3}, {24, 12, 1});
      const Tensor b = view(100 + offset - 20, {3, 2, 3}, strides);
      const std::vector<int32_t> of_a = marks(a);
      bool meet = false;
      for_each_element(b, [&](size_t at) { meet = meet || of_a[at] != 0; });
      if (meet) {
        EXPECT_FALSE(rows_are_disjoint(a, b)) << offset;
      }
      proven += rows_are_disjoint(a, b);
    }
  }
  EXPECT_GT(proven, 20);
  // Halves of [T, n, 2 D] and of [T, 2 n, D].
  EXPECT_TRUE(rows_are_disjoint(view(0, {5, 2, 8}, {32, 16, 1}), view(8, {5, 2, 8}, {32, 16, 1})));
  EXPECT_TRUE(rows_are_disjoint(view(0, {5, 2, 8}, {32, 8, 1}), view(16, {5, 2, 8}, {32, 8, 1})));
  EXPECT_FALSE(rows_are_disjoint(view(0, {5, 2, 8}, {32, 8, 1}), view(15, {5, 2, 8}, {32, 8, 1})));
  // A [T, D] slice beside [T, n, D].
  EXPECT_TRUE(rows_are_disjoint(view(0, {5, 2, 8}, {24, 8, 1}), view(16, {5, 8}, {24, 1})));
}

TEST(Overlap, Span) {
  EXPECT_EQ(span_bytes(view(0, {2, 3, 5}, {100, 10, 1})), 4 * (100 + 20 + 5));
  EXPECT_EQ(span_bytes(view(0, {2, 0, 5}, {100, 10, 1})), 0);
  EXPECT_EQ(span_bytes(view(0, {4, 3, 5}, {0, 0, 1})), 20);
}

// ---- Messages
// -----------------------------------------------------------------------------------------------

constexpr Extent kN{"n", 4};

Tensor good() { return make_tensor(memory, DType::kF32, 3, 8, 4, 5); }

std::string message_of(const Tensor& t, Layout layout = Layout::kContiguous, bool out = false) {
  Checker c("post");
  const Shape shape = {{"T", 8}, kN, {"D", 5}};
  if (out) {
    c.output("h_res", t, shape, only(DType::kF32) | only(DType::kBF16), layout);
  } else {
    c.input("h_res", t, shape, only(DType::kF32) | only(DType::kBF16), layout);
  }
  const Status status = c.finish();
  EXPECT_EQ(status.ok(), status.message[0] == '\0');
  return status.message;
}

TEST(Checker, GoodTensorsPass) {
  EXPECT_EQ(message_of(good()), "");
  EXPECT_EQ(message_of(view(0, {8, 4, 5}, {0, 7, 1}), Layout::kRows), "");
}

TEST(Checker, Shape) {
  Tensor t = make_tensor(memory, DType::kF32, 3, 128, 4, 5);
  Checker c("post");
  c.input("h_res", t, {{"T", 128}, kN, kN}, kF32OrF64);
  EXPECT_STREQ(c.status().message,
               "post: h_res: expected shape [T=128, n=4, n=4], got [128, 4, 5]");
  EXPECT_EQ(message_of({}), "post: h_res: expected shape [T=8, n=4, D=5], got no tensor");
  EXPECT_EQ(message_of(make_tensor(memory, DType::kF32, 2, 8, 4)),
            "post: h_res: expected shape [T=8, n=4, D=5], got [8, 4]");
  t.rank = 7;
  EXPECT_EQ(message_of(t), "post: h_res: expected shape [T=8, n=4, D=5], got rank 7");
  t.rank = -1;
  EXPECT_EQ(message_of(t), "post: h_res: expected shape [T=8, n=4, D=5], got rank -1");
  Checker free("post");
  free.input("x", make_tensor(memory, DType::kF32, 3, 8, 4, 0),
             {free_extent("T", 0), kN, free_extent("D", 1)}, kF32OrF64);
  EXPECT_STREQ(free.status().message, "post: x: expected shape [T, n=4, D>=1], got [8, 4, 0]");
}

TEST(Checker, Type) {
  Tensor t = good();
  t.dtype = DType::kF64;
  EXPECT_EQ(message_of(t), "post: h_res: expected type f32 or bf16, got f64");
  t.dtype = static_cast<DType>(17);
  EXPECT_EQ(message_of(t), "post: h_res: expected type f32 or bf16, got an unknown type");
  t.dtype = static_cast<DType>(-1);
  EXPECT_EQ(message_of(t), "post: h_res: expected type f32 or bf16, got an unknown type");
}

TEST(Checker, Strides) {
  EXPECT_EQ(message_of(view(0, {8, 4, 5}, {40, 5, 1})),
            "post: h_res: expected contiguous strides [20, 5, 1], got [40, 5, 1]");
  EXPECT_EQ(message_of(view(0, {8, 4, 5}, {40, 10, 2}), Layout::kRows),
            "post: h_res: expected stride 1 along D, got strides [40, 10, 2]");
  EXPECT_EQ(message_of(view(0, {8, 4, 5}, {-20, 5, 1}), Layout::kRows),
            "post: h_res: expected strides of at least 0, got [-20, 5, 1]");
  EXPECT_EQ(
      message_of(view(0, {8, 4, 5}, {0, 5, 1}), Layout::kRows, true),
      "post: h_res: expected strides that keep the elements of an output apart, got [0, 5, 1] for "
      "shape [8, 4, 5]");
  EXPECT_EQ(
      message_of(view(0, {8, 4, 5}, {20, 4, 1}), Layout::kRows, true),
      "post: h_res: expected strides that keep the elements of an output apart, got [20, 4, 1] for "
      "shape [8, 4, 5]");
}

TEST(Checker, Data) {
  Tensor t = good();
  t.data = nullptr;
  EXPECT_EQ(message_of(t), "post: h_res: expected data for shape [8, 4, 5], got null");
  t.data = reinterpret_cast<char*>(memory) + 2;
  EXPECT_NE(
      message_of(t).find("expected an address that is a multiple of 4, the size of f32, got 0x"),
      std::string::npos);
  t.dtype = DType::kBF16;
  EXPECT_EQ(message_of(t), "");
}

TEST(Checker, SizesBeyond63Bits) {
  constexpr int64_t kHuge = INT64_MAX / 2;
  Checker c("post");
  c.input("x", view(0, {kHuge, 4, 5}, {20, 5, 1}), {free_extent("T", 0), kN, free_extent("D", 1)},
          kF32OrF64, Layout::kRows);
  EXPECT_NE(
      std::string(c.status().message).find("post: x: expected less than 2^63 bytes, got shape ["),
      std::string::npos)
      << c.status().message;
  // The elements fit, their addresses do not.
  EXPECT_NE(
      message_of(view(0, {8, 4, 5}, {kHuge, 5, 1}), Layout::kRows).find("less than 2^63 bytes"),
      std::string::npos);
  // An extent of zero makes every other one harmless.
  Checker empty("post");
  Tensor t = make_tensor(nullptr, DType::kF32, 3, 0, 4, 5);
  t.stride[0] = INT64_MAX;
  EXPECT_TRUE(empty.input("x", t, {free_extent("T", 0), kN, free_extent("D", 1)}, kF32OrF64));
}

TEST(Checker, OutputsShareNoMemory) {
  const Tensor x = view(0, {8, 4, 5}, {20, 5, 1});
  const Tensor shifted = view(5, {8, 4, 5}, {20, 5, 1});
  const Tensor apart = view(160, {8, 4, 5}, {20, 5, 1});
  const Shape shape = {{"T", 8}, kN, {"D", 5}};
  const auto message = [&](const Tensor& in, const Tensor& out, bool alias) -> std::string {
    Checker c("post");
    c.input("x", in, shape, kF32OrF64, Layout::kRows);
    c.output("x_next", out, shape, kF32OrF64, Layout::kRows);
    if (alias) c.allow_alias("x_next", "x");
    return c.finish().message;
  };
  EXPECT_EQ(message(x, apart, false), "");
  EXPECT_EQ(message(x, x, true), "");
  EXPECT_NE(message(x, x, false).find("post: x_next: expected memory apart from x, got [0x"),
            std::string::npos);
  EXPECT_NE(
      message(x, shifted, true)
          .find("post: x_next: expected memory apart from x or exactly its elements, got [0x"),
      std::string::npos);
  Tensor other_strides = x;
  other_strides.stride[0] = 40;
  EXPECT_NE(message(x, other_strides, true), "");
}

TEST(Checker, InputsMayShareMemory) {
  Checker c("post");
  const Shape shape = {{"T", 8}, kN, {"D", 5}};
  c.input("a", good(), shape, kF32OrF64);
  c.input("b", good(), shape, kF32OrF64);
  EXPECT_TRUE(c.finish().ok());
}

TEST(Checker, WorkspaceOverlapsNothing) {
  Checker c("pre");
  c.input("x", good(), {{"T", 8}, kN, {"D", 5}}, kF32OrF64);
  c.memory("workspace", memory + 159, 400, true);
  EXPECT_NE(
      std::string(c.finish().message).find("pre: workspace: expected memory apart from x, got [0x"),
      std::string::npos);
  Checker apart("pre");
  apart.input("x", good(), {{"T", 8}, kN, {"D", 5}}, kF32OrF64);
  apart.memory("workspace", memory + 160, 400, true);
  EXPECT_TRUE(apart.finish().ok());
}

TEST(Checker, TheFirstErrorStays) {
  Checker c("post");
  EXPECT_FALSE(c.range("streams", 17, 1, 16));
  EXPECT_FALSE(c.range("other", 0, 1, 2));
  EXPECT_STREQ(c.status().message, "post: streams: expected 1 to 16, got 17");
  EXPECT_EQ(c.status().code, StatusCode::kInvalidArgument);
}

TEST(Checker, LongMessagesAreCutNotOverrun) {
  const std::string operation(600, 'o');
  Checker c(operation.c_str());
  c.fail(StatusCode::kInvalidArgument, "x", "%s", std::string(900, 'y').c_str());
  EXPECT_EQ(std::strlen(c.status().message), sizeof(Status::message) - 1);
}

}  // namespace
}  // namespace mhc
