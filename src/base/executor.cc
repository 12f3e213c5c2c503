#include "base/executor.h"

namespace mhc {

Executor serial_executor() { return {}; }

}  // namespace mhc
