#include "base/processors.h"

#include <pthread.h>
#include <sched.h>

#include <cstdio>

namespace mhc {

#if defined(__linux__)
namespace {

// The lowest logical processor of the same physical core that the mask allows. Two hyperthreads
// share the multiply-add units, which these kernels saturate, so that one thread per core is
// enough.
int32_t first_allowed_sibling(int32_t processor, const cpu_set_t& allowed) {
  char path[96];
  std::snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                processor);
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return processor;
  int32_t first = processor;
  int begin = 0;
  while (std::fscanf(file, "%d", &begin) == 1) {
    int end = begin;
    int separator = std::fgetc(file);
    if (separator == '-') {
      if (std::fscanf(file, "%d", &end) != 1) break;
      separator = std::fgetc(file);
    }
    for (int p = begin; p <= end && p < CPU_SETSIZE; ++p) {
      if (p >= 0 && p < first && CPU_ISSET(static_cast<size_t>(p), &allowed)) first = p;
    }
    if (separator != ',') break;
  }
  std::fclose(file);
  return first;
}

// Processors' worth of time per period that a container grants, or `otherwise` without a limit.
int32_t quota(int32_t otherwise) {
  std::FILE* file = std::fopen("/sys/fs/cgroup/cpu.max", "re");
  if (file == nullptr) return otherwise;
  long granted = 0;
  long period = 0;
  const bool limited = std::fscanf(file, "%ld %ld", &granted, &period) == 2;
  std::fclose(file);
  if (!limited || granted <= 0 || period <= 0) return otherwise;
  const long rounded_up = (granted + period - 1) / period;
  return rounded_up < otherwise ? static_cast<int32_t>(rounded_up) : otherwise;
}

}  // namespace

Processors usable_processors() {
  Processors result;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return result;
  int32_t cores = 0;
  for (int32_t p = 0; p < CPU_SETSIZE && cores < Processors::kMax; ++p) {
    if (!CPU_ISSET(static_cast<size_t>(p), &allowed)) continue;
    if (first_allowed_sibling(p, allowed) == p) result.core[cores++] = static_cast<int16_t>(p);
  }
  if (cores > 0) result.cores = cores;
  result.recommended_threads = quota(result.cores);
  return result;
}

void pin_this_thread(const Processors& processors, int32_t index) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(processors.core[index % processors.cores]), &one);
  pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
}

#else

Processors usable_processors() { return {}; }
void pin_this_thread(const Processors&, int32_t) {}

#endif

}  // namespace mhc
