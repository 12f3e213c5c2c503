#pragma once
// Memory of measurements: mapped at once, in huge pages where the system grants them, so that
// neither page faults nor address translation are measured.

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "base/dims.h"

namespace mhc::tool {

class Memory {
 public:
  Memory() = default;
  explicit Memory(int64_t bytes) {
    constexpr int64_t kHugePage = int64_t{1} << 21;
    bytes_ = static_cast<size_t>(round_up(bytes > 0 ? bytes : 1, kHugePage));
    void* mapped =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    data_ = mapped;
    madvise(data_, bytes_, MADV_HUGEPAGE);  // a wish
  }
  ~Memory() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  char* data() const { return static_cast<char*>(data_); }
  int64_t bytes() const { return static_cast<int64_t>(bytes_); }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace mhc::tool
