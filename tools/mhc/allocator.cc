#include "mhc/allocator.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>
#if defined(__GLIBC__)
#include <gnu/libc-version.h>
#endif

#include <cstdlib>
#include <new>

#include "mhc/measure.h"
#include "mhc/options.h"

namespace mhc::tool {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// "always [madvise] never"
std::string marked(const std::string& choices) {
  const size_t begin = choices.find('['), end = choices.find(']');
  return begin == std::string::npos || end < begin ? "unknown"
                                                   : choices.substr(begin + 1, end - begin - 1);
}

int64_t faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

struct Block {
  int64_t faults;
  double seconds;
};

Block write_block(int64_t bytes) {
  const int64_t before = faults();
  const double start = now();
  volatile char* block = static_cast<volatile char*>(std::malloc(static_cast<size_t>(bytes)));
  if (block == nullptr) throw std::bad_alloc();
  const int64_t page = sysconf(_SC_PAGESIZE);
  for (int64_t i = 0; i < bytes; i += page) block[i] = 1;
  const Block result{faults() - before, now() - start};
  std::free(const_cast<char*>(block));
  return result;
}

}  // namespace

bool Allocator::has_huge_pages() const { return first_faults * 8 < block / sysconf(_SC_PAGESIZE); }

Allocator try_allocator() {
  Allocator a;
#if defined(__GLIBC__)
  a.library = fmt::format("glibc {}", gnu_get_libc_version());
#else
  a.library = "unknown";
#endif
  a.preloaded = variable("LD_PRELOAD");
  a.tunables = variable("GLIBC_TUNABLES");
  a.huge_pages = marked(first_line("/sys/kernel/mm/transparent_hugepage/enabled"));
  a.block = int64_t{64} << 20;
  const Block first = write_block(a.block);
  a.first_faults = first.faults;
  a.second_faults = write_block(a.block).faults;
  a.fault_us = first.seconds / static_cast<double>(first.faults > 0 ? first.faults : 1) * 1e6;
  return a;
}

std::string describe(const Allocator& a) {
  return fmt::format(
      "{}{}: {} of fresh memory cost {} page faults of {:.1f} us ({}), the next {}", a.library,
      a.preloaded.empty() ? "" : " with " + a.preloaded, in_bytes(a.block), a.first_faults,
      a.fault_us, a.has_huge_pages() ? "huge pages" : "small pages",
      a.keeps_blocks()
          ? "none: freed blocks are kept"
          : fmt::format("{}: freed blocks are returned to the system", a.second_faults));
}

std::string advice(const Allocator& a) {
  if (a.keeps_blocks() && a.has_huge_pages()) return "";
  const std::string system =
      a.huge_pages == "never"
          ? "; huge pages are off (echo madvise > /sys/kernel/mm/transparent_hugepage/enabled)"
          : "";
  return fmt::format("outputs that are allocated anew pay for that; set {}{}", kTunables, system);
}

Json to_json(const Allocator& a) {
  return {{"library", a.library},
          {"preloaded", a.preloaded},
          {"tunables", a.tunables},
          {"transparent_huge_pages", a.huge_pages},
          {"tried_bytes", a.block},
          {"first_faults", a.first_faults},
          {"second_faults", a.second_faults},
          {"fault_us", a.fault_us},
          {"keeps_large_blocks", a.keeps_blocks()},
          {"huge_pages", a.has_huge_pages()},
          {"hint", advice(a)}};
}

}  // namespace mhc::tool
