// Specs, names, workspace sizes and packed phi.

#include <gtest/gtest.h>
#include <mhc/mhc.h>

#include <cstring>
#include <string>
#include <vector>

#include "api/operation_list_test.h"

namespace mhc::api {
namespace {

mhc_spec preset(const char* name) {
  mhc_spec spec;
  EXPECT_EQ(mhc_spec_preset(name, &spec), MHC_OK) << mhc_last_error();
  return spec;
}

void expect_error(mhc_status status, const std::string& message) {
  EXPECT_EQ(status, MHC_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(mhc_last_error()), message);
}

TEST(SpecQueries, PresetsAreListedAndSelfSized) {
  int32_t count = 0;
  for (; const char* name = mhc_preset_name(count); ++count) {
    EXPECT_EQ(preset(name).size, sizeof(mhc_spec));
    EXPECT_EQ(preset(name).streams, 4);
  }
  EXPECT_EQ(count, 5);
  EXPECT_EQ(mhc_preset_name(-1), nullptr);
  mhc_spec spec = preset("liger");
  EXPECT_EQ(spec.matrix_order, MHC_OUTPUT_INPUT);
  EXPECT_EQ(spec.pre_eps, 0.0);
  spec = preset("maxtext_lite");
  EXPECT_EQ(spec.manifold, MHC_PERMUTATION);
  EXPECT_EQ(spec.norm_eps, 1e-5);
  EXPECT_EQ(spec.phi_precision, MHC_BFLOAT16);
  EXPECT_EQ(spec.h_res_precision, MHC_GATE_ACTIVATION);
  expect_error(mhc_spec_preset("v4", &spec),
               "spec_preset: name: expected deepseek_v4, hf_deepseek_v4, maxtext_lite, "
               "maxtext_sinkhorn or liger, "
               "got \"v4\"");
  expect_error(mhc_spec_preset(nullptr, &spec), "spec_preset: name: expected a pointer, got null");
  expect_error(mhc_spec_preset("liger", nullptr),
               "spec_preset: spec: expected a pointer, got null");
}

TEST(SpecQueries, LogitsAndCoefficients) {
  const struct {
    mhc_manifold manifold;
    int64_t streams, logits;
  } cases[] = {{MHC_SINKHORN, 4, 16},     {MHC_SINKHORN, 16, 256},   {MHC_PERMUTATION, 4, 24},
               {MHC_PERMUTATION, 5, 120}, {MHC_UNCONSTRAINED, 3, 9}, {MHC_IDENTITY, 7, 0}};
  for (const auto& c : cases) {
    mhc_spec spec = preset("deepseek_v4");
    spec.manifold = c.manifold;
    spec.streams = c.streams;
    int64_t value = -1;
    EXPECT_EQ(mhc_spec_logits(&spec, &value), MHC_OK);
    EXPECT_EQ(value, c.logits);
    EXPECT_EQ(mhc_spec_coefficients(&spec, MHC_SITE, &value), MHC_OK);
    EXPECT_EQ(value, 2 * c.streams + c.logits);
    EXPECT_EQ(mhc_spec_coefficients(&spec, MHC_HEAD, &value), MHC_OK);
    EXPECT_EQ(value, c.streams);
  }
  mhc_spec spec = preset("maxtext_lite");
  spec.streams = 6;
  int64_t value = -1;
  expect_error(mhc_spec_logits(&spec, &value),
               "spec_logits: spec.streams: expected 1 to 5 for manifold permutation, got 6");
  EXPECT_EQ(value, -1);
  spec.streams = 4;
  expect_error(mhc_spec_logits(&spec, nullptr),
               "spec_logits: logits: expected a pointer, got null");
  expect_error(mhc_spec_coefficients(&spec, 5, &value),
               "spec_coefficients: kind: expected site (0) or head (1), got 5");
}

TEST(Names, ManifoldsRoundTrip) {
  int32_t count = 0;
  for (; mhc_manifold_at(count) >= 0; ++count) {
    const mhc_manifold id = mhc_manifold_at(count);
    mhc_manifold found = -1;
    EXPECT_EQ(mhc_manifold_from_name(mhc_manifold_name(id), &found), MHC_OK);
    EXPECT_EQ(found, id);
  }
  EXPECT_GE(count, 4);
  EXPECT_EQ(mhc_manifold_at(-1), -1);
  EXPECT_EQ(mhc_manifold_name(1234), nullptr);
  mhc_manifold found = -1;
  EXPECT_EQ(mhc_manifold_from_name("birkhoff", &found), MHC_INVALID_ARGUMENT);
  const std::string message = mhc_last_error();
  EXPECT_EQ(message.rfind("manifold_from_name: name: expected ", 0), 0u) << message;
  EXPECT_TRUE(message.ends_with("got \"birkhoff\"")) << message;
  EXPECT_NE(message.find("sinkhorn"), std::string::npos) << message;
  EXPECT_EQ(found, -1);
}

TEST(Names, OfNumbers) {
  EXPECT_STREQ(mhc_version(), MHC_VERSION_STRING);
  EXPECT_STREQ(mhc_dtype_name(MHC_BF16), "bf16");
  EXPECT_EQ(mhc_dtype_name(4), nullptr);
  EXPECT_EQ(mhc_dtype_name(-1), nullptr);
  EXPECT_STREQ(mhc_isa_name(MHC_ISA_AVX512BF16), "avx512bf16");
  EXPECT_EQ(mhc_isa_name(4), nullptr);
  EXPECT_EQ(mhc_isa_name(-1), nullptr);
  EXPECT_EQ(mhc_isa_description(99), nullptr);
  EXPECT_EQ(mhc_isa_available(99), 0);
  EXPECT_EQ(mhc_isa_available(MHC_ISA_SCALAR), 1);
  EXPECT_STREQ(mhc_status_name(MHC_OK), "ok");
  EXPECT_STREQ(mhc_status_name(77), "unknown status");
  EXPECT_EQ(mhc_calls_of(nullptr), 0);
  EXPECT_EQ(mhc_counted_kernel(-1), nullptr);
}

mhc_problem problem_of(const mhc_spec* spec, int64_t tokens, int64_t embedding,
                       mhc_dtype activation) {
  mhc_problem p{};
  p.size = sizeof(p);
  p.spec = spec;
  p.tokens = tokens;
  p.embedding = embedding;
  p.activation = activation;
  return p;
}

TEST(WorkspaceQuery, IsBoundedInTokens) {
  const mhc_spec spec = preset("deepseek_v4");
  for (mhc_operation op = MHC_OP_PRE; op <= MHC_OP_HEAD_BACKWARD; ++op) {
    size_t largest = 0;
    for (int64_t tokens = 1; tokens <= 1 << 14; tokens *= 2) {
      const mhc_problem p = problem_of(&spec, tokens, 64, MHC_BF16);
      size_t bytes = 0;
      ASSERT_EQ(mhc_workspace_bytes(op, &p, nullptr, &bytes), MHC_OK) << mhc_last_error();
      EXPECT_GT(bytes, 0u) << op;
      largest = std::max(largest, bytes);
    }
    const mhc_problem p = problem_of(&spec, int64_t{1} << 40, 64, MHC_BF16);
    size_t bytes = 0;
    ASSERT_EQ(mhc_workspace_bytes(op, &p, nullptr, &bytes), MHC_OK) << mhc_last_error();
    EXPECT_LE(bytes, largest) << op;
    const mhc_problem f64 = problem_of(&spec, 100, 64, MHC_F64);
    ASSERT_EQ(mhc_workspace_bytes(op, &f64, nullptr, &bytes), MHC_OK);
    EXPECT_EQ(bytes, 0u);
  }
}

TEST(WorkspaceQuery, BadProblems) {
  const mhc_spec spec = preset("deepseek_v4");
  const mhc_problem good = problem_of(&spec, 8, 64, MHC_BF16);
  size_t bytes = 7;
  expect_error(mhc_workspace_bytes(MHC_OP_PRE, &good, nullptr, nullptr),
               "workspace_bytes: bytes: expected a pointer, got null");
  expect_error(mhc_workspace_bytes(MHC_OP_PRE, nullptr, nullptr, &bytes),
               "workspace_bytes: problem: expected a pointer, got null");
  for (mhc_operation op : {-1, 10, 1000}) {
    expect_error(mhc_workspace_bytes(op, &good, nullptr, &bytes),
                 "workspace_bytes: operation: expected one of MHC_OP_PRE (0) to "
                 "MHC_OP_HEAD_BACKWARD (9), got " +
                     std::to_string(op));
  }
  mhc_problem p = good;
  p.size = 1;
  expect_error(mhc_workspace_bytes(MHC_OP_PRE, &p, nullptr, &bytes),
               "workspace_bytes: problem.size: expected " + std::to_string(sizeof(p)) +
                   ", the size of mhc_problem, got 1");
  p = good;
  p.spec = nullptr;
  expect_error(mhc_workspace_bytes(MHC_OP_PRE, &p, nullptr, &bytes),
               "workspace_bytes: spec: expected a pointer, got null");
  p = good;
  p.activation = 9;
  expect_error(
      mhc_workspace_bytes(MHC_OP_PRE, &p, nullptr, &bytes),
      "workspace_bytes: activation: expected f32 (0), bf16 (1), f16 (2) or f64 (3), got 9");
  for (int64_t tokens : {int64_t{-1}, INT64_MAX}) {
    p = good;
    p.tokens = tokens;
    EXPECT_EQ(mhc_workspace_bytes(MHC_OP_PRE, &p, nullptr, &bytes), MHC_INVALID_ARGUMENT);
    EXPECT_EQ(std::string(mhc_last_error()).rfind("workspace_bytes: tokens: expected 0 to ", 0), 0u)
        << mhc_last_error();
  }
  for (int64_t embedding : {int64_t{0}, int64_t{-1}, INT64_MAX}) {
    p = good;
    p.embedding = embedding;
    EXPECT_EQ(mhc_packed_phi_bytes(&p, nullptr, &bytes), MHC_INVALID_ARGUMENT);
    EXPECT_EQ(std::string(mhc_last_error()).rfind("packed_phi_bytes: embedding: expected 1 to ", 0),
              0u)
        << mhc_last_error();
  }
  EXPECT_EQ(bytes, 7u);
}

// ---- Packed phi
// ---------------------------------------------------------------------------------------------

class PackedPhi : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    op_ = make_operation(GetParam(), Sizes{});
    for (const Argument& a : op_->arguments) {
      if (a.output) continue;
      uint32_t state = static_cast<uint32_t>(a.name[0]);
      for (int64_t i = 0; i < a.bytes;
           i += 2) {  // bf16 values, and the low and high halves of f32 ones
        state = state * 1664525u + 1013904223u;
        const uint16_t v = static_cast<uint16_t>(0x3d00 + (state >> 24));
        std::memcpy(a.memory + i, &v, 2);
      }
    }
    if (GetParam() == "head") {
      packed_ = &static_cast<mhc_head_args*>(op_->args.get())->packed_phi;
    } else if (GetParam() == "pre") {
      packed_ = &static_cast<mhc_pre_args*>(op_->args.get())->packed_phi;
    } else if (GetParam() == "coefficients") {
      packed_ = &static_cast<mhc_coefficients_args*>(op_->args.get())->packed_phi;
    } else {
      packed_ = &static_cast<mhc_project_partial_args*>(op_->args.get())->packed_phi;
    }
    pack_.size = sizeof(pack_);
    pack_.problem = problem_of(&op_->spec_value, 0, 10, MHC_BF16);
    pack_.problem.kind = GetParam() == "head" ? MHC_HEAD : MHC_SITE;
    pack_.phi = *op_->find("phi")->tensor;
    pack_.norm_weight = *op_->find("norm_weight")->tensor;
    ASSERT_EQ(mhc_packed_phi_bytes(&pack_.problem, nullptr, &pack_.packed_bytes), MHC_OK)
        << mhc_last_error();
    memory_.resize(pack_.packed_bytes);
    pack_.packed = memory_.data();
  }

  std::vector<unsigned char> outputs() {
    op_->poison_outputs();
    EXPECT_EQ(op_->call(nullptr), MHC_OK) << mhc_last_error();
    std::vector<unsigned char> bytes;
    for (const Argument& a : op_->arguments) {
      if (a.output) bytes.insert(bytes.end(), a.memory, a.memory + a.bytes);
    }
    return bytes;
  }

  std::unique_ptr<Operation> op_;
  mhc_packed_phi* packed_ = nullptr;
  mhc_pack_phi_args pack_{};
  std::vector<unsigned char> memory_;
};

TEST_P(PackedPhi, GivesTheSameBitsWithoutPhi) {
  const std::vector<unsigned char> expected = outputs();
  ASSERT_EQ(mhc_pack_phi(&pack_, nullptr), MHC_OK) << mhc_last_error();
  *packed_ = {memory_.data(), memory_.size()};
  *op_->find("phi")->tensor = mhc_tensor{};
  *op_->find("norm_weight")->tensor = mhc_tensor{};
  EXPECT_EQ(outputs(), expected);
}

TEST_P(PackedPhi, WhatWasNotPackedForThisIsRefused) {
  const auto expect_refused = [&] {
    op_->poison_outputs();
    EXPECT_EQ(op_->call(nullptr), MHC_INVALID_ARGUMENT);
    EXPECT_EQ(std::string(mhc_last_error()).rfind(GetParam() + ": packed_phi: expected ", 0), 0u)
        << mhc_last_error();
    EXPECT_TRUE(op_->outputs_untouched());
  };
  *packed_ = {memory_.data(), memory_.size()};
  expect_refused();  // zeros
  ASSERT_EQ(mhc_pack_phi(&pack_, nullptr), MHC_OK) << mhc_last_error();
  *packed_ = {memory_.data(), memory_.size() - 1};
  expect_refused();
  *packed_ = {memory_.data(), 0};
  expect_refused();
}

TEST_P(PackedPhi, BadArgumentsOfPacking) {
  const auto expect_refused = [&](const mhc_pack_phi_args& args, const std::string& argument) {
    std::fill(memory_.begin(), memory_.end(), static_cast<unsigned char>(0xa5));
    EXPECT_EQ(mhc_pack_phi(&args, nullptr), MHC_INVALID_ARGUMENT);
    EXPECT_EQ(std::string(mhc_last_error()).rfind("pack_phi: " + argument + ": expected ", 0), 0u)
        << mhc_last_error();
    for (unsigned char b : memory_) ASSERT_EQ(b, 0xa5);
  };
  mhc_pack_phi_args a = pack_;
  a.size = 3;
  expect_refused(a, "args.size");
  a = pack_;
  a.problem.size = 3;
  expect_refused(a, "problem.size");
  a = pack_;
  a.packed_bytes -= 1;
  expect_refused(a, "packed");
  a = pack_;
  a.packed = nullptr;
  expect_refused(a, "packed");
  a = pack_;
  a.packed = pack_.phi.data;
  expect_refused(a, "packed");
  a = pack_;
  a.phi = mhc_tensor{};
  expect_refused(a, "phi");
  a = pack_;
  a.phi.shape[2] += 1;
  expect_refused(a, "phi");
  a = pack_;
  a.norm_weight.dtype = MHC_F16;
  expect_refused(a, "norm_weight");
  a = pack_;
  a.problem.kind = 4;
  expect_refused(a, "kind");
  a = pack_;
  a.problem.embedding = -1;
  expect_refused(a, "embedding");
  EXPECT_EQ(mhc_pack_phi(nullptr, nullptr), MHC_INVALID_ARGUMENT);
  EXPECT_STREQ(mhc_last_error(), "pack_phi: args: expected a pointer, got null");
}

INSTANTIATE_TEST_SUITE_P(Operations, PackedPhi,
                         testing::Values("pre", "coefficients", "project_partial", "head"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace mhc::api
