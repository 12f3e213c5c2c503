#pragma once
// What `mhc bench` prints.

#include <string>
#include <vector>

#include "mhc/bench_row.h"
#include "mhc/machine.h"

namespace mhc::tool {

std::string counted(int64_t count, const char* noun);  // "1 thread", "2 threads"
std::string describe(const SiteProblem& problem);

// Throws UsageError where a problem does not fit into what is free.
void require_memory(const SiteProblem& problem, int64_t bytes, const Machine& machine);

void print_machine(const Machine& machine);
void print_rooflines(const std::vector<Roofline>& rooflines);
void print_problem(const SiteProblem& problem, int64_t bytes, bool limited);
void print_drift(double drift);
void print_row(const BenchRow& row, const SiteProblem& problem);

}  // namespace mhc::tool
