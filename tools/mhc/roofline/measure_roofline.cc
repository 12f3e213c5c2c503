#include "mhc/roofline/measure_roofline.h"

#include <algorithm>

#include "mhc/measure.h"
#include "mhc/roofline/roofline.h"

namespace mhc::tool {
namespace {

constexpr int64_t kRowBytes = kRowFloats * 4;
constexpr int64_t kPassBytes = int64_t{96} << 20;  // of one timing; the next goes on behind it
constexpr int64_t kTaskBytes = int64_t{2} << 20;

Repeat exactly(int64_t repetitions) {
  return {.at_least = repetitions, .at_most = repetitions, .seconds = 0, .warm_up = 2};
}

const RooflineKernel& best_kernel() {
  const RooflineKernel* best = nullptr;
  for (const RooflineKernel& k : roofline_kernels()) {
    if (is_available(k.isa)) best = &k;
  }
  return *best;
}

// Bytes per second of one way to read and write; `groups` of them are in memory.
double measure_mix(const Executor& executor, const MixJob& job, int64_t groups,
                   int64_t repetitions) {
  const RooflineKernel& kernel = best_kernel();
  const int64_t group_bytes = (job.reads + job.writes) * kRowBytes;
  const int64_t pass = std::clamp<int64_t>(kPassBytes / group_bytes, 1, groups);
  const int64_t per_task = std::max<int64_t>(1, kTaskBytes / group_bytes);
  const int64_t passes = groups / pass;
  const Timing timing = measure(exactly(repetitions), [&](int64_t i) {
    const int64_t begin = i % passes * pass;
    executor.run(ceil_div(pass, per_task), [&](int64_t task, int32_t) {
      const int64_t first = begin + task * per_task;
      kernel.mix(job, first, std::min(first + per_task, begin + pass));
    });
  });
  return static_cast<double>(pass * group_bytes) / timing.median;
}

// With and without software prefetch: the better one counts.
double best_mix(const Executor& executor, MixJob job, int64_t groups, int64_t repetitions) {
  const double plain = measure_mix(executor, job, groups, repetitions);
  job.prefetch = true;
  return std::max(plain, measure_mix(executor, job, groups, repetitions));
}

Bandwidth measure_bandwidth(const Executor& executor, Mix mix, const Memory& memory,
                            int64_t repetitions) {
  float* base = reinterpret_cast<float*>(memory.data());
  const int64_t rows = memory.bytes() / kRowBytes - mix.reads;  // prefetches stay inside
  MixJob job;
  job.reads = mix.reads;
  job.writes = mix.writes;
  job.from = base;
  job.to = base;
  job.from_stride = mix.reads * kRowFloats;
  job.to_stride = job.from_stride;
  Bandwidth b{.mix = mix};
  if (mix.writes == 0) {
    b.ordinary = best_mix(executor, job, rows / mix.reads, repetitions);
    return b;
  }
  if (mix.writes <= mix.reads) b.in_place = best_mix(executor, job, rows / mix.reads, repetitions);
  const int64_t groups = rows / (mix.reads + mix.writes);
  job.to = base + groups * job.from_stride;
  job.to_stride = mix.writes * kRowFloats;
  b.ordinary = best_mix(executor, job, groups, repetitions);
  job.stream = true;
  b.streaming = best_mix(executor, job, groups, repetitions);
  return b;
}

template <class F>
double measure_rate(const Executor& executor, double flops_per_round, int64_t repetitions,
                    const F& f) {
  constexpr int64_t kRounds = 200'000;  // about a millisecond
  const int64_t tasks = 8 * executor.workers();
  const Timing timing = measure(exactly(repetitions), [&](int64_t) {
    executor.run(tasks, [&](int64_t, int32_t) { f(kRounds); });
  });
  return flops_per_round * static_cast<double>(kRounds * tasks) / timing.median;
}

}  // namespace

double Bandwidth::best() const { return std::max({ordinary, streaming, in_place}); }

double Roofline::bandwidth(Mix mix) const {
  for (const Bandwidth& b : bandwidths) {
    if (b.mix == mix) return b.best();
  }
  return 0;
}

double Roofline::f32(Isa isa) const {
  double best = 0;
  for (const Rate& r : rates) best = r.isa <= isa ? std::max(best, r.f32) : best;
  return best;
}

double Roofline::bf16_dot(Isa isa) const {
  double best = 0;
  for (const Rate& r : rates) best = r.isa <= isa ? std::max(best, r.bf16_dot) : best;
  return best;
}

double drift(const Roofline& before, const Roofline& after) {
  double most = 0;
  const auto compare = [&](double a, double b) {
    if (a > 0 && b > 0) most = std::max(most, 1 - std::min(a, b) / std::max(a, b));
  };
  for (const Bandwidth& b : after.bandwidths) compare(before.bandwidth(b.mix), b.best());
  for (const Rate& r : after.rates) compare(before.f32(r.isa), after.f32(r.isa));
  return most;
}

Roofline measure_roofline(const Executor& executor, const std::vector<Mix>& mixes,
                          const Memory& memory, int64_t repetitions) {
  Roofline roofline;
  roofline.threads = executor.workers();
  for (const RooflineKernel& k : roofline_kernels()) {
    if (!is_available(k.isa)) continue;
    Rate rate{.isa = k.isa};
    rate.f32 = measure_rate(executor, k.flops_per_round, repetitions, k.multiply_add);
    if (k.dot != nullptr)
      rate.bf16_dot = measure_rate(executor, k.dot_flops_per_round, repetitions, k.dot);
    roofline.rates.push_back(rate);
  }
  for (const Mix mix : mixes) {
    roofline.bandwidths.push_back(measure_bandwidth(executor, mix, memory, repetitions));
  }
  return roofline;
}

nlohmann::ordered_json to_json(const Roofline& roofline) {
  nlohmann::ordered_json json{{"threads", roofline.threads}};
  for (const Bandwidth& b : roofline.bandwidths) {
    nlohmann::ordered_json entry{
        {"reads", b.mix.reads}, {"writes", b.mix.writes}, {"gb_per_s", b.best() * 1e-9}};
    entry["ordinary_gb_per_s"] = b.ordinary * 1e-9;
    if (b.mix.writes > 0) entry["streaming_gb_per_s"] = b.streaming * 1e-9;
    if (b.in_place > 0) entry["in_place_gb_per_s"] = b.in_place * 1e-9;
    json["bandwidth"].push_back(entry);
  }
  double dot = 0;
  for (const Rate& r : roofline.rates) {
    json["gflops_f32"][name_of(r.isa)] = r.f32 * 1e-9;
    dot = std::max(dot, r.bf16_dot);
  }
  json["gflops_bf16_dot"] = nullptr;
  if (dot > 0) json["gflops_bf16_dot"] = dot * 1e-9;
  return json;
}

}  // namespace mhc::tool
