// What the library is and has, and what it has run.

#include "api/call.h"
#include "base/counters.h"
#include "base/isa.h"
#include "layer/kernel_list.h"

namespace {

bool is_isa(mhc_isa isa) { return isa >= 0 && isa < mhc::kIsas; }

}  // namespace

extern "C" {

const char* mhc_version(void) { return MHC_VERSION_STRING; }

const char* mhc_status_name(mhc_status status) {
  switch (status) {
    case MHC_OK:
      return "ok";
    case MHC_INVALID_ARGUMENT:
      return "invalid argument";
    case MHC_UNSUPPORTED:
      return "unsupported";
    case MHC_OUT_OF_MEMORY:
      return "out of memory";
    case MHC_BAD_INPUT:
      return "bad input";
    default:
      return "unknown status";
  }
}

const char* mhc_dtype_name(mhc_dtype dtype) {
  const mhc::DType t = static_cast<mhc::DType>(dtype);
  return mhc::is_valid(t) ? mhc::name_of(t) : nullptr;
}

const char* mhc_isa_name(mhc_isa isa) {
  return is_isa(isa) ? mhc::name_of(static_cast<mhc::Isa>(isa)) : nullptr;
}

const char* mhc_isa_description(mhc_isa isa) {
  return is_isa(isa) ? mhc::description_of(static_cast<mhc::Isa>(isa)) : nullptr;
}

int32_t mhc_isa_available(mhc_isa isa) {
  return is_isa(isa) && mhc::is_available(static_cast<mhc::Isa>(isa)) ? 1 : 0;
}

int32_t mhc_kernel_count(void) { return mhc::kernel_count(); }

mhc_kernel_info mhc_kernel_at(int32_t index) {
  mhc_kernel_info info{};
  if (index < 0 || index >= mhc::kernel_count()) return info;
  const mhc::KernelRow row = mhc::kernel_at(index);
  info.operation = row.operation;
  info.name = row.name;
  info.isa = static_cast<mhc_isa>(row.isa);
  info.dtype = static_cast<mhc_dtype>(row.dtype);
  info.available = mhc_isa_available(info.isa);
  return info;
}

int64_t mhc_calls_of(const char* kernel) { return kernel == nullptr ? 0 : mhc::calls_of(kernel); }

const char* mhc_counted_kernel(int32_t index) {
  return index < 0 ? nullptr : mhc::counted_name(index);
}

void mhc_reset_calls(void) { mhc::reset_calls(); }

}  // extern "C"
