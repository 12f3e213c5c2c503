#include "mhc/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "mhc/measure.h"

namespace mhc::tool {

Progress::Progress(int64_t total)
    : total_(std::max<int64_t>(total, 1)), start_(now()), terminal_(isatty(STDERR_FILENO) == 1) {}

void Progress::next(const std::string& what) {
  constexpr int64_t kWidth = 24;
  const int64_t done = std::min(begun_++, total_);
  if (!terminal_) return;
  const std::string bar(static_cast<size_t>(done * kWidth / total_), '#');
  fmt::print(stderr, "\r\033[K[{:<{}}] {}/{}  {:.0f} s  {}", bar, kWidth, begun_, total_,
             now() - start_, what.substr(0, 40));
  std::fflush(stderr);
  shown_ = true;
}

void Progress::clear() {
  if (!shown_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace mhc::tool
