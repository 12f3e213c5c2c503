#include "mhc/bench_report.h"

#include <fmt/format.h>

#include "mhc/options.h"

namespace mhc::tool {
namespace {

constexpr const char* kLine = "  {:<28}";
constexpr const char* kCell = "{:>12}";

std::string number(double value) { return value > 0 ? fmt::format("{:.1f}", value * 1e-9) : "-"; }

template <class F>
void print_line(const std::string& name, const std::vector<Roofline>& rooflines, const F& value) {
  fmt::print(fmt::runtime(kLine), name);
  for (const Roofline& r : rooflines) fmt::print(fmt::runtime(kCell), number(value(r)));
  fmt::print("\n");
}

std::string mix_name(Mix mix) {
  if (mix.writes == 0) return "GB/s read";
  return fmt::format("GB/s {} read : {} written", mix.reads, mix.writes);
}

}  // namespace

std::string counted(int64_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string describe(const SiteProblem& p) {
  const auto name = [](Precision precision) {
    return precision == Precision::kFloat32 ? "float32" : "bfloat16";
  };
  return fmt::format("T={} n={} D={} {}, {}, phi {}{}{}{}", p.dims.tokens, p.dims.streams,
                     p.dims.embedding, name_of(p.dtype), find_manifold(p.spec.manifold)->name,
                     name(p.spec.phi_precision), p.packed_phi ? " packed" : "",
                     p.spec.gradient_precision == Precision::kFloat32 ? "" : ", gradients bfloat16",
                     p.one_token ? ", one token read for all" : "");
}

void require_memory(const SiteProblem& problem, int64_t bytes, const Machine& machine) {
  if (bytes <= machine.available / 10 * 9) return;
  throw UsageError(fmt::format("--dims: {} would take {} of memory, {} are free", describe(problem),
                               in_bytes(bytes), in_bytes(machine.available)));
}

void print_machine(const Machine& machine) {
  fmt::print("{}\n", describe(machine));
  if (machine.load > 0.5) {
    fmt::print("other programs are running (load {:.1f} on {}): expect noise\n", machine.load,
               counted(machine.cores, "core"));
  }
}

void print_rooflines(const std::vector<Roofline>& rooflines) {
  fmt::print("\n");
  fmt::print(fmt::runtime(kLine), "measured here, now");
  for (const Roofline& r : rooflines) {
    fmt::print(fmt::runtime(kCell), counted(r.threads, "thread"));
  }
  fmt::print("\n");
  const Roofline& first = rooflines.front();
  for (const Bandwidth& b : first.bandwidths) {
    print_line(mix_name(b.mix), rooflines, [&](const Roofline& r) { return r.bandwidth(b.mix); });
  }
  bool slow_dot = false;
  for (size_t i = 0; i < first.rates.size(); ++i) {
    const Rate& rate = first.rates[i];
    print_line(fmt::format("GF/s f32, {}", name_of(rate.isa)), rooflines,
               [&](const Roofline& r) { return r.rates[i].f32; });
    if (rate.bf16_dot == 0) continue;
    print_line(fmt::format("GF/s bf16 dot, {}", name_of(rate.isa)), rooflines,
               [&](const Roofline& r) { return r.rates[i].bf16_dot; });
    slow_dot = rate.bf16_dot < first.f32(rate.isa);
  }
  if (slow_dot) {
    fmt::print(
        "  bf16 dots are slower than f32 multiply-adds here: a floor takes the faster of the "
        "two\n");
  }
}

void print_problem(const SiteProblem& problem, int64_t bytes, bool limited) {
  fmt::print("\n{} ({} in rotation{})\n", describe(problem), in_bytes(bytes),
             limited ? ": something may come from a cache" : "");
  fmt::print("  {:<14}{:<11}{:>8}{:>10}{:>7}{:>8}{:>7}  {:<8}{:>7}{:>8}\n", "op", "isa", "threads",
             "us/token", "+-", "floor", "share", "limit", "GB/s", "GF/s");
}

void print_drift(double drift) {
  fmt::print("\nthe machine's own rates, measured again at the end, differ by at most {:.0f}%{}\n",
             drift * 100, drift > 0.1 ? ": other programs took part, and shares are rough" : "");
}

void print_row(const BenchRow& row, const SiteProblem& p) {
  const double scale = 1e6 / static_cast<double>(p.dims.tokens);
  const Timing& t = row.timing;
  fmt::print("  {:<14}{:<11}{:>8}{:>10.3f}{:>6.0f}%{:>8.3f}{:>6.0f}%  {:<8}{:>7.1f}{:>8.1f}\n",
             row.op, name_of(row.isa), row.threads, t.median * scale,
             (t.high - t.low) / 2 / t.median * 100, row.floor_seconds * scale, row.share() * 100,
             row.floor.limit(), row.cost.bytes() / t.median * 1e-9,
             row.cost.flops() / t.median * 1e-9);
}

}  // namespace mhc::tool
