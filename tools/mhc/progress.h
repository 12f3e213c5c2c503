#pragma once
// One line on standard error that tells how far a long command is; nothing where that is no
// terminal.

#include <cstdint>
#include <string>

namespace mhc::tool {

class Progress {
 public:
  explicit Progress(int64_t total);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void next(const std::string& what);  // the next step begins
  void clear();                        // before anything else is printed

 private:
  int64_t total_;
  int64_t begun_ = 0;
  double start_;
  bool terminal_;
  bool shown_ = false;
};

}  // namespace mhc::tool
