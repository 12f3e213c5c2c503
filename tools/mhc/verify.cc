// `mhc verify`: cases of every operation on every instruction set, then whole sites, each number
// held against a bound that follows from the arithmetic.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "mhc/options.h"
#include "verify/case_lists.h"
#include "verify/run_case.h"
#include "verify/site.h"

namespace mhc::tool {
namespace {

using Json = nlohmann::ordered_json;
using verify::Case;
using verify::Comparison;

void show_progress(int64_t done, int64_t total) {
  if (isatty(STDERR_FILENO) == 0) return;
  fmt::print(stderr, "\r{:3d} %\r", total == 0 ? 100 : 100 * done / total);
}

// All cases of one operation on one instruction set.
struct Tally {
  int64_t cases = 0, elements = 0, broken = 0;
  double share = 0;
  std::string kernel, problem;
};

void count(const verify::CaseResult& r, Tally* tally) {
  ++tally->cases;
  for (const Comparison& c : r.comparisons) {
    tally->elements += c.elements;
    tally->share = std::max(tally->share, c.largest_share);
  }
  if (r.ok()) return;
  if (tally->broken++ == 0) tally->problem = r.problem;
}

// What a site runs on.
struct Machine {
  Isa isa;
  int32_t threads;
  bool named;  // the instruction set, by the user
};

// Runs thinned-out cases of every operation; false when one is wrong.
bool verify_operations(const std::vector<Isa>& isas, Json* json) {
  bool good = true;
  fmt::print("{:<24}{:<12}{:>8}{:>12}{:>14}\n", "operation", "isa", "cases", "elements",
             "bound share");
  for (int32_t op = 0; op < verify::kOps; ++op) {
    std::vector<Tally> tallies(isas.size());
    const verify::Op operation = static_cast<verify::Op>(op);
    std::vector<Case> cases = verify::option_cases(operation, 300);
    for (const Case& c : verify::size_cases(operation, 1e6)) cases.push_back(c);
    for (size_t k = 0; k < cases.size(); ++k) {
      if (k % 16 == 0) show_progress(static_cast<int64_t>(k), static_cast<int64_t>(cases.size()));
      verify::CaseRunner runner(cases[k]);
      for (size_t i = 0; i < isas.size(); ++i)
        count(runner.run(verify::runtime_of(isas[i])), &tallies[i]);
    }
    for (size_t i = 0; i < isas.size(); ++i) {
      const Tally& t = tallies[i];
      fmt::print("{:<24}{:<12}{:>8}{:>12}{:>14.3f}  {}\n", verify::name_of(operation),
                 name_of(isas[i]), t.cases, t.elements, t.share,
                 t.broken == 0 ? "ok" : fmt::format("{} BROKEN", t.broken));
      if (t.broken != 0) fmt::print("{}\n", t.problem);
      good = good && t.broken == 0;
      (*json)["operations"].push_back({{"operation", verify::name_of(operation)},
                                       {"isa", name_of(isas[i])},
                                       {"cases", t.cases},
                                       {"elements", t.elements},
                                       {"bound_share", t.share},
                                       {"broken", t.broken}});
    }
  }
  return good;
}

Json site_json(const verify::SiteCase& c, Isa isa, int32_t threads, const verify::SiteResult& r) {
  Json json{{"dims", {c.dims.tokens, c.dims.streams, c.dims.embedding}},
            {"dtype", name_of(c.dtype)},
            {"manifold", find_manifold(c.spec.manifold)->name},
            {"isa", name_of(isa)},
            {"threads", threads},
            {"ok", r.ok()}};
  for (const Comparison& t : r.tensors) {
    json["tensors"].push_back({{"name", t.name},
                               {"elements", t.elements},
                               {"cosine", t.cosine()},
                               {"largest_error", t.largest_error},
                               {"largest_value", t.largest_value},
                               {"bound_share", t.largest_share},
                               {"broken", t.wrong}});
  }
  return json;
}

// One whole site; false when a bound or a cosine is broken.
bool verify_site(const verify::SiteCase& c, const Machine& m, const Environment& environment,
                 Json* json) {
  const Isa isa = m.isa;
  const int32_t threads = m.threads;
  const auto start = std::chrono::steady_clock::now();
  const PoolRuntime pool(threads, false, isa, m.named, environment.tuning);
  const verify::SiteResult r = verify::check_site(c, pool.runtime, show_progress);
  if (!r.problem.empty()) throw UsageError(r.problem);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("\nsite T={} n={} D={} {} {}, {}, {} thread{} ({:.1f} s)\n", c.dims.tokens,
             c.dims.streams, c.dims.embedding, name_of(c.dtype),
             find_manifold(c.spec.manifold)->name, name_of(isa), threads, threads == 1 ? "" : "s",
             seconds);
  fmt::print("  {:<18}{:>12}{:>14}{:>14}{:>14}{:>14}\n", "tensor", "elements", "cosine",
             "largest error", "largest value", "bound share");
  for (const Comparison& t : r.tensors) {
    const bool low = !(t.cosine() > 0.999);
    fmt::print("  {:<18}{:>12}{:>14.9f}{:>14.3g}{:>14.3g}{:>14.2g}  {}\n", t.name, t.elements,
               t.cosine(), t.largest_error, t.largest_value, t.largest_share,
               t.ok() ? (low ? "COSINE" : "ok") : fmt::format("{} BROKEN", t.wrong));
    if (!t.ok()) fmt::print("    {}\n", t.first_wrong);
  }
  (*json)["sites"].push_back(site_json(c, isa, threads, r));
  return r.ok();
}

}  // namespace

int run_verify(const Options& o) {
  const Environment environment = read_environment();
  const std::vector<Isa> isas = usable_isas(environment);
  const bool plain = o.dims.empty() && o.dtypes.empty() && o.manifolds.empty() && o.preset.empty();
  std::vector<Machine> machines;
  for (const Isa isa : o.isas_or({isas.back()})) {
    for (const int32_t threads : o.threads_or({default_threads(environment)})) {
      machines.push_back({isa, threads, !o.isas.empty() || environment.ceiling_named});
    }
  }
  const std::vector<Dims> dims = o.dims_or({{plain ? 512 : 2048, 4, 3072}});
  const std::vector<DType> dtypes = o.dtypes_or({DType::kBF16});
  std::vector<Spec> specs = o.specs_or("permutation");
  if (plain) specs.push_back(Spec{});  // sinkhorn
  JsonFile file(o.json);
  Json json;
  bool good = true;
  if (plain) good = verify_operations(o.isas_or(isas), &json);
  for (const Dims& d : dims) {
    for (const DType dtype : dtypes) {
      for (const Spec& spec : specs) {
        for (const Machine& m : machines) {
          verify::SiteCase c;
          c.dims = d;
          c.dtype = dtype;
          c.spec = spec;
          good = verify_site(c, m, environment, &json) && good;
        }
      }
    }
  }
  json["ok"] = good;
  file.write(json.dump(2));
  fmt::print("\n{}\n", good ? "Every number is within its bound." : "A BOUND IS BROKEN.");
  return good ? 0 : 1;
}

}  // namespace mhc::tool
