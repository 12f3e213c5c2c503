#pragma once
// A line of text in a fixed buffer, cut where it does not fit.

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace mhc {

template <size_t kSize>
class Text {
 public:
  [[gnu::format(printf, 2, 3)]] Text& add(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int wanted = std::vsnprintf(text_ + length_, kSize - length_, format, arguments);
    va_end(arguments);
    if (wanted > 0) {
      const size_t room = kSize - 1 - length_;
      length_ += static_cast<size_t>(wanted) < room ? static_cast<size_t>(wanted) : room;
    }
    return *this;
  }

  const char* c_str() const { return text_; }

 private:
  char text_[kSize] = {0};
  size_t length_ = 0;
};

}  // namespace mhc
