#include "mhc/options.h"
namespace mhc::tool {
int run_tune(const Options&, const std::string&) { return 0; }
}  // namespace mhc::tool
