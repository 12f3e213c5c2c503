#include "verify/buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "base/dims.h"

namespace mhc::verify {
namespace {

constexpr size_t kGuard = 256;  // bytes on each side, more than any vector
constexpr size_t kHugeBytes = size_t{8} << 20;
constexpr uint8_t kPoison = 0xff;

Tensor strided(DType dtype, const std::vector<int64_t>& shape, Padding padding) {
  Tensor t;
  t.dtype = dtype;
  t.rank = static_cast<int32_t>(shape.size());
  int64_t stride = 1;
  for (int32_t i = t.rank - 1; i >= 0; --i) {
    t.shape[i] = shape[static_cast<size_t>(i)];
    t.stride[i] = stride;
    stride *= t.shape[i];
    if (i == t.rank - 1) stride += padding.row;
    if (i == 1) stride += padding.plane;
  }
  return t;
}

// Elements from the first to behind the last.
int64_t span_of(const Tensor& t) {
  if (t.elements() == 0) return 0;
  int64_t last = 0;
  for (int32_t i = 0; i < t.rank; ++i) last += (t.shape[i] - 1) * t.stride[i];
  return last + 1;
}

}  // namespace

Buffer::Buffer(DType dtype, std::vector<int64_t> shape, Placement placement, Padding padding)
    : tensor_(strided(dtype, shape, padding)) {
  const size_t element = static_cast<size_t>(size_of(dtype));
  const size_t bytes = static_cast<size_t>(span_of(tensor_)) * element;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t usable = (bytes + 2 * kGuard + element + page - 1) / page * page;
  mapped_ = usable + page;
  void* memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mapping_ = static_cast<uint8_t*>(memory);
  mprotect(mapping_ + usable, page, PROT_NONE);
  if (usable >= kHugeBytes) madvise(mapping_, usable, MADV_HUGEPAGE);
  switch (placement) {
    case Placement::kAligned:
      begin_ = kGuard;
      break;
    case Placement::kShifted:
      begin_ = kGuard + element;
      break;
    case Placement::kPageEnd:
      begin_ = usable - bytes;
      break;
  }
  tensor_.data = mapping_ + begin_;
  poison();
}

Buffer::~Buffer() {
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(tensor_, other.tensor_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  std::swap(begin_, other.begin_);
  return *this;
}

void Buffer::poison() {
  const size_t usable = mapped_ - static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::memset(mapping_, kPoison, usable);
}

std::string Buffer::damage() const {
  if (mapping_ == nullptr) return {};
  const size_t usable = mapped_ - static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t element = static_cast<size_t>(size_of(tensor_.dtype));
  const int64_t row = tensor_.rank == 0 ? 0 : tensor_.shape[tensor_.rank - 1];
  size_t at = 0;  // everything before has been looked at
  std::string found;
  const auto clean_up_to = [&](size_t end) {
    for (; at < end; ++at) {
      if (mapping_[at] != kPoison && found.empty()) {
        char text[96];
        std::snprintf(text, sizeof(text), "byte %lld relative to the first element was written",
                      static_cast<long long>(at) - static_cast<long long>(begin_));
        found = text;
      }
    }
  };
  if (tensor_.elements() > 0) {
    const int64_t a = tensor_.rank > 1 ? tensor_.shape[0] : 1;
    const int64_t b = tensor_.rank > 2 ? tensor_.shape[1] : 1;
    for (int64_t i = 0; i < a; ++i) {
      for (int64_t j = 0; j < b; ++j) {
        const int64_t offset = (tensor_.rank > 1 ? i * tensor_.stride[0] : 0) +
                               (tensor_.rank > 2 ? j * tensor_.stride[1] : 0);
        const size_t first = begin_ + static_cast<size_t>(offset) * element;
        clean_up_to(first);
        at = first + static_cast<size_t>(row) * element;
      }
    }
  }
  clean_up_to(usable);
  return found;
}

bool Buffer::same_bits(const Buffer& other) const {
  bool same = tensor_.dtype == other.tensor_.dtype;
  const size_t element = static_cast<size_t>(size_of(tensor_.dtype));
  for_each_index(tensor_, [&](int64_t i, int64_t j, int64_t k) {
    const auto address = [&](const Tensor& t) {
      const int64_t offset = i * t.stride[0] + j * t.stride[1] + k * t.stride[2];
      return static_cast<const uint8_t*>(t.data) + static_cast<size_t>(offset) * element;
    };
    same = same && std::memcmp(address(tensor_), address(other.tensor_), element) == 0;
  });
  return same;
}

void Buffer::copy_from(const Buffer& other) {
  for_each_index(tensor_, [&](int64_t i, int64_t j, int64_t k) {
    tensor_.store(other.tensor_.load(i, j, k), i, j, k);
  });
}

std::vector<double> widen(const Tensor& t) {
  std::vector<double> values(static_cast<size_t>(t.elements()));
  if (values.empty()) return values;
  double* out = values.data();
  visit_dtype(t.dtype, [&](auto tag) {
    using T = decltype(tag);
    for_each_index(t,
                   [&](int64_t i, int64_t j, int64_t k) { *out++ = to_double(*t.at<T>(i, j, k)); });
  });
  return values;
}

Tensor tokens_of(const Tensor& t, int64_t begin, int64_t count) {
  if (!t.present()) return t;
  Tensor slice = t;
  slice.shape[0] = count;
  if (t.data != nullptr) {
    slice.data = static_cast<uint8_t*>(t.data) + begin * t.stride[0] * size_of(t.dtype);
  }
  return slice;
}

}  // namespace mhc::verify
