// The command `mhc`: what the library is here, whether it is right here, and how fast.
//
// Exit status: 0 done; 1 `verify` found a bound broken; 2 the command line or the environment asks
// for something that there is not, with one line on standard error; 3 it could not be done.

#include <fmt/format.h>

#include <cstdio>

#include "mhc/options.h"
#include "mhc/version.h"

namespace {

// One line on what is wrong with the command line.
int usage_error(const char* text) {
  fmt::print(stderr, "mhc: {}\n", text);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace mhc::tool;
  CLI::App app{"Kernels for manifold-constrained hyper-connections on this machine.", "mhc"};
  app.set_version_flag("--version", MHC_VERSION_STRING);
  app.require_subcommand(1);
  Options o;

  CLI::App* info =
      app.add_subcommand("info", "the library, this machine, and which kernel would run");
  bool info_json = false;
  info->add_flag("--json", info_json, "as JSON");

  CLI::App* verify = app.add_subcommand(
      "verify", "check results against exact formulas; exit 1 when a bound is broken");
  add_dims(verify, &o);
  add_types(verify, &o);
  add_machine(verify, &o);
  verify->add_option("--json", o.json, "write the results to this file");

  CLI::App* bench =
      app.add_subcommand("bench", "time the operations as shares of what this machine allows");
  bench->add_option("--op", o.ops, "pre, post, post_backward, pre_backward, site");
  add_dims(bench, &o);
  add_types(bench, &o);
  add_machine(bench, &o);
  bench->add_option("--phi-precision", o.phi, "float32, bfloat16");
  bench->add_option("--gradient-precision", o.gradient, "float32, bfloat16");
  bench->add_flag("--packed-phi", o.packed,
                  "phi kept packed by the caller, not packed by each call");
  bench->add_flag("--one-token", o.one_token,
                  "one token read for all: the time without memory, beside an unchanged floor");
  bench->add_option("--seconds", o.seconds, "time for each row")->check(CLI::Range(0.01, 600.0));
  bench->add_option("--json", o.json, "write rows and roofline to this file");
  bench->add_option("--trace", o.trace,
                    "write tasks by worker to this file, for chrome://tracing or Perfetto");

  CLI::App* tune =
      app.add_subcommand("tune", "measure tile sizes and write the table that MHC_TUNING names");
  std::string output;
  add_dims(tune, &o);
  tune->add_option("--dtype", o.dtypes, "type of the activations: bf16, f32, f16");
  tune->add_option("--threads", o.threads, "numbers of threads, such as 1,2");
  tune->add_option("--output", output,
                   "the table's file; else that of MHC_TUNING, else mhc-tuning.txt");

  try {
    app.parse(argc, argv);
    if (info->parsed()) return run_info(info_json);
    if (verify->parsed()) return run_verify(o);
    if (bench->parsed()) return run_bench(o);
    return run_tune(o, output);
  } catch (const CLI::Success& e) {
    return app.exit(e);  // --help, --version
  } catch (const CLI::ParseError& e) {
    return usage_error(e.what());
  } catch (const UsageError& e) {
    return usage_error(e.what());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "mhc: not enough memory for this problem\n");
    return 3;
  } catch (const std::exception& e) {
    fmt::print(stderr, "mhc: {}\n", e.what());
    return 3;
  }
}
