#pragma once
// What large outputs cost before a kernel has written a byte: the allocator's habits, seen by
// trying.

#include "mhc/machine.h"

namespace mhc::tool {

struct Allocator {
  std::string library;        // "glibc 2.36"
  std::string preloaded;      // LD_PRELOAD
  std::string tunables;       // GLIBC_TUNABLES
  std::string huge_pages;     // the system's setting: always, madvise or never
  int64_t block = 0;          // bytes of the blocks that were tried
  int64_t first_faults = 0;   // page faults of a fresh block
  int64_t second_faults = 0;  // of one that takes the place of a freed one
  double fault_us = 0;        // what one costs

  bool keeps_blocks() const { return second_faults * 8 < first_faults; }
  bool has_huge_pages() const;
};

// Allocates, writes and frees a block of 64 MiB, twice.
Allocator try_allocator();

// The settings of glibc under which large blocks stay, in huge pages.
inline constexpr const char* kTunables =
    "GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=8589934592:"
    "glibc.malloc.trim_threshold=17179869184";

std::string describe(const Allocator& allocator);  // one line on how it is
std::string advice(const Allocator& allocator);    // one on what to set, or ""
Json to_json(const Allocator& allocator);

}  // namespace mhc::tool
