#include "tune/table.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

namespace mhc {
namespace {

class TuningFile : public testing::Test {
 protected:
  TuningFile() : table_(std::make_unique<TuningTable>()) {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = testing::TempDir() + "mhc_tuning_" + test->name() + ".txt";
  }
  ~TuningFile() override { std::remove(path_.c_str()); }

  Status load(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    return load_tuning_table(path_.c_str(), table_.get());
  }

  void expect_error(const std::string& text, const std::string& line, const std::string& got) {
    const Status status = load(text);
    EXPECT_EQ(status.code, StatusCode::kInput) << text;
    const std::string message = status.message;
    EXPECT_NE(message.find("tuning table " + path_ + ": line " + line + ": expected "),
              std::string::npos)
        << message;
    EXPECT_TRUE(message.ends_with("got " + got)) << message;
    EXPECT_EQ(table_->count, 0);
  }

  std::string path_;
  std::unique_ptr<TuningTable> table_;
};

const std::string kHeader = "mhc-tuning 1\n";
const std::string kRow =
    "pre bf16 workers=2 streams=4 embedding=3072 tokens=512 pre_tile_tokens=32\n";

TEST_F(TuningFile, RowsServeFromTheirTokensUp) {
  ASSERT_TRUE(load(kHeader + "# comment\n\n" + kRow +
                   "  pre bf16 workers=2 streams=4 embedding=3072 tokens=2048 pre_tile_tokens=8 "
                   "stream_bytes=0\r\n")
                  .ok());
  const auto tile = [&](const char* op, int64_t t, int64_t n, int64_t d, DType type,
                        int32_t workers) {
    return look_up_tuning(table_.get(), op, t, n, d, static_cast<int32_t>(type), workers)
        .pre_tile_tokens;
  };
  EXPECT_EQ(tile("pre", 511, 4, 3072, DType::kBF16, 2), 0);
  EXPECT_EQ(tile("pre", 512, 4, 3072, DType::kBF16, 2), 32);
  EXPECT_EQ(tile("pre", 2047, 4, 3072, DType::kBF16, 2), 32);
  EXPECT_EQ(tile("pre", 1 << 30, 4, 3072, DType::kBF16, 2), 8);
  EXPECT_EQ(tile("post", 512, 4, 3072, DType::kBF16, 2), 0);
  EXPECT_EQ(tile("pre", 512, 2, 3072, DType::kBF16, 2), 0);
  EXPECT_EQ(tile("pre", 512, 4, 3073, DType::kBF16, 2), 0);
  EXPECT_EQ(tile("pre", 512, 4, 3072, DType::kF32, 2), 0);
  EXPECT_EQ(tile("pre", 512, 4, 3072, DType::kBF16, 1), 0);
  EXPECT_EQ(look_up_tuning(table_.get(), "pre", 600, 4, 3072, static_cast<int32_t>(DType::kBF16), 2)
                .stream_bytes,
            -1);
  EXPECT_EQ(
      look_up_tuning(table_.get(), "pre", 4000, 4, 3072, static_cast<int32_t>(DType::kBF16), 2)
          .stream_bytes,
      0);
}

TEST_F(TuningFile, WhatIsSavedIsLoaded) {
  TuningRow& row = table_->rows[table_->count++];
  std::snprintf(row.operation, sizeof(row.operation), "pre_backward");
  row.dtype = DType::kF16;
  row.workers = 3;
  row.streams = 8;
  row.embedding = 7168;
  row.tokens = 1;
  row.choice.backward_wave_tokens = 384;
  row.choice.backward_panel_features = 96;
  row.choice.tokens_per_task = 5;
  row.choice.stream_bytes = 123456789012;
  ASSERT_TRUE(save_tuning_table(path_.c_str(), *table_).ok());
  auto loaded = std::make_unique<TuningTable>();
  ASSERT_TRUE(load_tuning_table(path_.c_str(), loaded.get()).ok());
  ASSERT_EQ(loaded->count, 1);
  const Tuning t = look_up_tuning(loaded.get(), "pre_backward", 9, 8, 7168,
                                  static_cast<int32_t>(DType::kF16), 3);
  EXPECT_EQ(t.pre_tile_tokens, 0);
  EXPECT_EQ(t.backward_wave_tokens, 384);
  EXPECT_EQ(t.backward_panel_features, 96);
  EXPECT_EQ(t.tokens_per_task, 5);
  EXPECT_EQ(t.stream_bytes, 123456789012);
}

TEST_F(TuningFile, BadFilesNameTheLine) {
  expect_error("", "1", "nothing");
  expect_error("mhc-tuning 2\n", "1", "mhc-tuning 2");
  expect_error(kHeader + "pre\n", "2", "nothing");
  expect_error(kHeader + "pre bf17 workers=2\n", "2", "bf17");
  expect_error(kHeader + kRow + "pre bf16 worker=2\n", "3", "worker=2");
  for (const char* word :
       {"workers=0", "workers=-1", "workers=", "workers=2x", "workers=99999999999999999999",
        "backward_wave_tokens=100", "backward_panel_features=33", "stream_bytes=-2", "workers"}) {
    expect_error(kHeader + "pre bf16 " + word + "\n", "2", word);
  }
  expect_error(kHeader + "pre bf16 workers=2 streams=4 embedding=1\n", "2",
               "a row without workers, streams, embedding or tokens");
  expect_error(kHeader + std::string(40, 'o') + " bf16\n", "2", std::string(40, 'o'));
  std::string many = kHeader;
  for (int32_t i = 0; i <= TuningTable::kMaxRows; ++i) many += kRow;
  expect_error(many, "514", "more");
}

TEST_F(TuningFile, AMissingFileIsAnError) {
  const Status status = load_tuning_table("/no/such/file", table_.get());
  EXPECT_EQ(status.code, StatusCode::kInput);
  EXPECT_STREQ(status.message, "tuning table /no/such/file: No such file or directory");
  EXPECT_EQ(save_tuning_table("/no/such/file", *table_).code, StatusCode::kInput);
}

}  // namespace
}  // namespace mhc
