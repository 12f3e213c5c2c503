#pragma once
// The subcommands of `mhc`. Each file adds one: its options and what runs when it is named. Exit
// status: 0 done, 1 a bound is broken or a measurement failed, 2 unusable arguments, with one line
// on standard error.

namespace CLI {
class App;
}

namespace mhc::tool {

void add_info(CLI::App& app);    // info.cc
void add_verify(CLI::App& app);  // verify.cc
void add_bench(CLI::App& app);   // bench.cc
void add_tune(CLI::App& app);    // tune.cc

}  // namespace mhc::tool
