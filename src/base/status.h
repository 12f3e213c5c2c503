#pragma once
// The outcome of a check or a call: a code and one line of text, without allocation or exceptions.

#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace mhc {

enum class StatusCode : int32_t {
  kOk = 0,
  kInvalidArgument = 1,  // the caller's arguments contradict the contract
  kUnsupported = 2,      // a form, type or size that is named but not built
  kOutOfMemory = 3,
  kInput = 4,  // a file or the environment holds something unusable
};

struct Status {
  StatusCode code = StatusCode::kOk;
  char message[400] = {0};

  bool ok() const { return code == StatusCode::kOk; }

  [[gnu::format(printf, 2, 3)]] static Status error(StatusCode code, const char* format, ...)
      __attribute__((format(printf, 2, 3))) {
    Status s;
    s.code = code;
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(s.message, sizeof(s.message), format, arguments);
    va_end(arguments);
    return s;
  }
};

// Returns from the enclosing function when the expression is not ok.
#define MHC_RETURN_IF_ERROR(expression)                                      \
  do {                                                                       \
    if (::mhc::Status status_ = (expression); !status_.ok()) return status_; \
  } while (false)

}  // namespace mhc
