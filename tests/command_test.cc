// The command as a user meets it: bad command lines, the documented fields of its JSON, the trace,
// the table of `tune`.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tune/table.h"

namespace mhc {
namespace {

using nlohmann::json;

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Outcome {
  int status = -1;
  std::string out, err;
};

class CommandTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* tool = std::getenv("MHC_TOOL");
    if (tool == nullptr || *tool == '\0') GTEST_SKIP() << "the command is not built";
    tool_ = tool;
    std::string name = testing::TempDir() + "mhc-command-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    if (folder_.empty()) return;
    for (const char* file : {"out", "err", "rows.json", "trace.json", "table", "in"}) {
      std::remove(path(file).c_str());
    }
    rmdir(folder_.c_str());
  }

  std::string path(const std::string& file) const { return folder_ + "/" + file; }

  // environment: "NAME=value " before the command.
  Outcome run(const std::string& arguments, const std::string& environment = "") const {
    const std::string command = "env -u MHC_ISA -u MHC_NUM_THREADS -u MHC_TUNING " + environment +
                                " '" + tool_ + "' " + arguments + " >" + path("out") + " 2>" +
                                path("err") + " </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(path("out")),
            read_file(path("err"))};
  }

  // One line that names the trouble, and nothing else.
  void expect_refused(const std::string& arguments, const std::string& word,
                      const std::string& environment = "") const {
    const Outcome o = run(arguments, environment);
    SCOPED_TRACE(environment + " mhc " + arguments + "\n" + o.err);
    EXPECT_EQ(o.status, 2);
    EXPECT_EQ(o.out, "");
    EXPECT_EQ(o.err.rfind("mhc: ", 0), 0u);
    EXPECT_EQ(o.err.find('\n'), o.err.size() - 1);
    EXPECT_NE(o.err.find(word), std::string::npos) << "expected to read \"" << word << "\"";
  }

  std::string tool_, folder_;
};

TEST_F(CommandTest, RefusesBadCommandLines) {
  const std::pair<const char*, const char*> kLines[] = {
      {"", "subcommand"},
      {"frobnicate", "subcommand"},
      {"info extra", "extra"},
      {"bench --nope", "--nope"},
      {"bench --dims", "--dims"},
      {"bench --dims 1,2", "T,n,D or B,S,n,D"},
      {"bench --dims 1,2,3,4,5", "T,n,D or B,S,n,D"},
      {"bench --dims 8,4,x", "\"x\""},
      {"bench --dims 8,4,64k", "\"64k\""},
      {"bench --dims 0,4,64", "\"0\""},
      {"bench --dims 8,-4,64", "\"-4\""},
      {"bench --dims 8,17,64", "1 to 16"},
      {"bench --dims 2147483648,16,2147483648", "2^40"},
      {"bench --dims 8,6,64 --manifold permutation", "at most 5"},
      {"bench --dims 1000000,4,100000", "memory"},
      {"bench --dtype f8", "bf16"},
      {"bench --dtype f64", "f64"},
      {"bench --manifold sphere", "sinkhorn"},
      {"bench --preset nobody", "deepseek_v4"},
      {"bench --preset liger --manifold sinkhorn", "--preset"},
      {"bench --isa sse9", "avx512bf16"},
      {"bench --threads 0", "--threads"},
      {"bench --threads 1,two", "\"two\""},
      {"bench --threads 99999", "1024"},
      {"bench --op mix", "post_backward"},
      {"bench --phi-precision f32", "bfloat16"},
      {"bench --gradient-precision f32", "bfloat16"},
      {"bench --seconds -1", "--seconds"},
      {"bench --seconds soon", "--seconds"},
      {"bench --json /nowhere/rows.json", "/nowhere/rows.json"},
      {"bench --trace /nowhere/trace.json", "/nowhere/trace.json"},
      {"verify --dims 3", "T,n,D or B,S,n,D"},
      {"verify --isa none", "scalar"},
      {"verify --json /nowhere/checks.json", "/nowhere/checks.json"},
      {"tune --output /nowhere/table", "/nowhere/table"},
      {"tune --threads zero", "\"zero\""},
      {"tune --dtype f64", "f64"},
  };
  for (const auto& [arguments, word] : kLines) expect_refused(arguments, word);
}

TEST_F(CommandTest, RefusesBadEnvironments) {
  for (const char* command : {"info", "verify", "bench", "tune"}) {
    expect_refused(command, "MHC_ISA", "MHC_ISA=sse9");
    expect_refused(command, "MHC_NUM_THREADS", "MHC_NUM_THREADS=none");
  }
  expect_refused("bench", "/nowhere/table", "MHC_TUNING=/nowhere/table");
}

TEST_F(CommandTest, RefusesToReplaceWhatIsNoTable) {
  std::ofstream(path("in")) << "a letter\n";
  expect_refused("tune --output " + path("in"), "mhc-tuning 1");
  EXPECT_EQ(read_file(path("in")), "a letter\n");
}

TEST_F(CommandTest, Helps) {
  for (const char* arguments :
       {"--help", "info --help", "verify --help", "bench --help", "tune --help", "--version"}) {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.status, 0) << arguments;
    EXPECT_NE(o.out, "") << arguments;
    EXPECT_EQ(o.err, "") << arguments;
  }
}

TEST_F(CommandTest, InfoHasTheDocumentedFields) {
  const Outcome o = run("info --json", "MHC_ISA=scalar MHC_NUM_THREADS=3");
  ASSERT_EQ(o.status, 0) << o.err;
  const json info = json::parse(o.out);
  for (const char* field : {"version", "processor", "isa", "caches", "threads", "allocator",
                            "kernels", "manifolds", "presets"}) {
    EXPECT_TRUE(info.contains(field)) << field;
  }
  EXPECT_EQ(info["isa"]["chosen"], "scalar");
  EXPECT_EQ(info["threads"]["used"], 3);
  // One kernel of each operation and type is chosen, and here it is the scalar one.
  std::map<std::string, int> chosen;
  for (const json& k : info["kernels"]) {
    const std::string row = k["operation"].get<std::string>() + k["dtype"].get<std::string>();
    chosen[row] += k["chosen"].get<bool>() ? 1 : 0;
    EXPECT_TRUE(!k["chosen"].get<bool>() || k["isa"] == "scalar") << k;
  }
  EXPECT_GT(chosen.size(), 10u);
  for (const auto& [row, count] : chosen) EXPECT_EQ(count, 1) << row;
  EXPECT_EQ(run("info").status, 0);
}

constexpr const char* kQuick =
    "bench --dims 96,4,64 --manifold sinkhorn,identity --isa scalar --threads 1,2 --seconds 0.01";

TEST_F(CommandTest, BenchRowsHaveTheDocumentedFields) {
  const Outcome o = run(std::string(kQuick) + " --json " + path("rows.json"));
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(o.err, "") << "progress belongs on a terminal";
  const json bench = json::parse(read_file(path("rows.json")));
  EXPECT_TRUE(bench["machine"].contains("processor"));
  ASSERT_EQ(bench["roofline"].size(), 2u);
  for (const json& r : bench["roofline"]) {
    EXPECT_GT(r["gflops_f32"]["scalar"], 0);
    EXPECT_TRUE(r.contains("gflops_bf16_dot"));
    EXPECT_GE(r["bandwidth"].size(), 6u);  // read, copy and the mixes of four operations
    for (const json& b : r["bandwidth"]) EXPECT_GT(b["gb_per_s"], 0) << b;
  }
  ASSERT_EQ(bench["rows"].size(), 2u * 2 * 5);
  for (const json& row : bench["rows"]) {
    SCOPED_TRACE(row.dump());
    for (const char* field : {"op", "isa", "dtype", "manifold", "phi_precision", "limit"}) {
      EXPECT_TRUE(row[field].is_string()) << field;
    }
    for (const char* field :
         {"threads", "tokens", "streams", "embedding", "us_per_token", "floor_us_per_token",
          "floor_share", "bytes_per_token", "flops_per_token"}) {
      EXPECT_GT(row[field], 0) << field;
    }
    const double share =
        row["floor_us_per_token"].get<double>() / row["us_per_token"].get<double>();
    EXPECT_NEAR(row["floor_share"], share, 1e-6 * share);
    EXPECT_TRUE(row["limit"] == "memory" || row["limit"] == "compute");
    EXPECT_EQ(row["isa"], "scalar");
    EXPECT_EQ(row["tokens"], 96);
    EXPECT_GE(row["repetitions"], 7);
  }
}

TEST_F(CommandTest, TraceShowsTasksByWorker) {
  const Outcome o = run(std::string(kQuick) + " --op site --trace " + path("trace.json"));
  ASSERT_EQ(o.status, 0) << o.err;
  const json trace = json::parse(read_file(path("trace.json")));
  std::map<std::pair<int, int>, double> end;  // of the last task, by process and worker
  std::map<std::pair<int, int>, std::string> names;
  int tasks = 0, calls = 0;
  for (const json& e : trace["traceEvents"]) {
    const std::pair<int, int> lane{e["pid"], e["tid"]};
    if (e["ph"] == "M") {
      if (e["name"] == "thread_name") names[lane] = e["args"]["name"];
      continue;
    }
    ASSERT_EQ(e["ph"], "X");
    ASSERT_EQ(names.count(lane), 1u) << e;
    EXPECT_GE(e["dur"], 0);
    (names[lane] == "calls" ? calls : tasks) += 1;
    // A worker does one thing at a time.
    EXPECT_GE(e["ts"].get<double>(), end[lane]) << e;
    end[lane] = e["ts"].get<double>() + e["dur"].get<double>() - 1e-3;
  }
  EXPECT_EQ(calls, 4 * 4);  // operations, and two manifolds on two numbers of threads
  EXPECT_GT(tasks, calls);
}

TEST_F(CommandTest, TuneWritesATableThatLoads) {
  const std::string file = path("table");
  std::ofstream(file)
      << "mhc-tuning 1\n"
         "post f32 workers=7 streams=3 embedding=5 tokens=9 tokens_per_task=2\n"
         "pre bf16 workers=1 streams=2 embedding=40 tokens=64 pre_tile_tokens=200\n";
  const Outcome o = run("tune --dims 64,2,40 --threads 1,2 --output " + file);
  ASSERT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(o.err, "");
  const auto table = std::make_unique<TuningTable>();
  const Status status = load_tuning_table(file.c_str(), table.get());
  ASSERT_TRUE(status.ok()) << status.message;
  ASSERT_EQ(table->count, 1 + 2 * 4);  // the other problem's row stays
  EXPECT_EQ(table->rows[0].choice.tokens_per_task, 2);
  EXPECT_NE(table->rows[1].choice.pre_tile_tokens, 200);  // measured again
  EXPECT_EQ(run("info", "MHC_TUNING=" + file).status, 0);
}

}  // namespace
}  // namespace mhc
