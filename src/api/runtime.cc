#include "api/runtime.h"

#include <cstring>
#include <new>

#include "api/call.h"
#include "api/environment.h"

namespace mhc::api {
namespace {

constexpr const char* kCreate = "runtime_create";

Status use_own_pool(const mhc_runtime_options& options, mhc_runtime* made) {
  made->pool = ThreadPool::create(options.num_threads, options.pin == 1);
  if (made->pool == nullptr) {
    return Status::error(StatusCode::kOutOfMemory, "%s: num_threads: cannot start %d threads",
                         kCreate, options.num_threads);
  }
  made->runtime.executor = made->pool->executor();
  return {};
}

Status use_executor(const mhc_runtime_options& options, mhc_runtime* made) {
  const mhc_executor& e = options.executor;
  if (e.run == nullptr || e.workers == nullptr) {
    return null_argument(kCreate, e.run == nullptr ? "executor.run" : "executor.workers");
  }
  const Executor executor{e.context, e.workers, e.run};
  const int32_t workers = executor.workers();
  if (workers < 1) {
    return Status::error(StatusCode::kInvalidArgument,
                         "%s: executor.workers: expected at least 1 worker, got %d", kCreate,
                         workers);
  }
  made->runtime.executor = executor;
  if (options.num_threads > 0) {
    made->capped = {executor, options.num_threads};
    made->runtime.executor = made->capped.executor();
  }
  return {};
}

Status set_up(const mhc_runtime_options& options, mhc_runtime* made) {
  if (options.num_threads < 0 || options.num_threads > kMaxThreads) {
    return Status::error(StatusCode::kInvalidArgument, "%s: num_threads: expected 0 to %d, got %d",
                         kCreate, kMaxThreads, options.num_threads);
  }
  bool pin = false;
  MHC_RETURN_IF_ERROR(to_flag(kCreate, "pin", options.pin, &pin));
  if (options.isa != nullptr) {
    MHC_RETURN_IF_ERROR(parse_isa_option(StatusCode::kInvalidArgument, "runtime_create: isa",
                                         options.isa, &made->runtime.ceiling));
    made->runtime.exact_isa = true;
  }
  if (options.tuning != nullptr) {
    MHC_RETURN_IF_ERROR(load_tuning_table(options.tuning, &made->table));
    made->runtime.table = &made->table;
    made->runtime.lookup = look_up_tuning;
  }
  const bool own = options.executor.run == nullptr && options.executor.workers == nullptr;
  return own ? use_own_pool(options, made) : use_executor(options, made);
}

Status create(const mhc_runtime_options& options, mhc_runtime** runtime) {
  mhc_runtime* made = new (std::nothrow) mhc_runtime;
  if (made == nullptr) return Status::error(StatusCode::kOutOfMemory, "%s: out of memory", kCreate);
  const Status status = set_up(options, made);
  if (status.ok()) {
    *runtime = made;
  } else {
    delete made;
  }
  return status;
}

struct Default {
  Status status;
  mhc_runtime* runtime = nullptr;

  Default() {
    mhc_runtime_options options{};
    status = read_environment(&options);
    if (status.ok()) status = create(options, &runtime);
  }
};

// Never destroyed: other threads may still be inside a call when the program ends.
const Default& default_runtime() {
  static const Default* made = new Default;
  return *made;
}

}  // namespace

Status to_runtime(const char* operation, const mhc_runtime* runtime, const Runtime** usable) {
  if (runtime == nullptr) {
    const Default& made = default_runtime();
    if (!made.status.ok()) {
      return Status::error(made.status.code, "%s: default runtime: %.330s", operation,
                           made.status.message);
    }
    runtime = made.runtime;
  }
  *usable = &runtime->runtime;
  return {};
}

}  // namespace mhc::api

using mhc::Status;
using namespace mhc::api;

extern "C" {

mhc_status mhc_runtime_create(const mhc_runtime_options* options, mhc_runtime** runtime) {
  return guarded(kCreate, [&]() -> Status {
    if (options == nullptr) return null_argument(kCreate, "options");
    if (runtime == nullptr) return null_argument(kCreate, "runtime");
    MHC_RETURN_IF_ERROR(check_struct_size(kCreate, "options.size", options->size, sizeof(*options),
                                          "mhc_runtime_options"));
    return create(*options, runtime);
  });
}

void mhc_runtime_destroy(mhc_runtime* runtime) { delete runtime; }

mhc_status mhc_runtime_options_from_environment(mhc_runtime_options* options) {
  constexpr const char* kOperation = "runtime_options_from_environment";
  return guarded(kOperation, [&]() -> Status {
    if (options == nullptr) return null_argument(kOperation, "options");
    MHC_RETURN_IF_ERROR(check_struct_size(kOperation, "options.size", options->size,
                                          sizeof(*options), "mhc_runtime_options"));
    return read_environment(options);
  });
}

mhc_status mhc_runtime_workers(const mhc_runtime* runtime, int32_t* workers) {
  constexpr const char* kOperation = "runtime_workers";
  return guarded(kOperation, [&]() -> Status {
    if (workers == nullptr) return null_argument(kOperation, "workers");
    const mhc::Runtime* usable = nullptr;
    MHC_RETURN_IF_ERROR(to_runtime(kOperation, runtime, &usable));
    *workers = usable->executor.workers();
    return {};
  });
}

mhc_status mhc_runtime_isa(const mhc_runtime* runtime, mhc_isa* isa) {
  constexpr const char* kOperation = "runtime_isa";
  return guarded(kOperation, [&]() -> Status {
    if (isa == nullptr) return null_argument(kOperation, "isa");
    const mhc::Runtime* usable = nullptr;
    MHC_RETURN_IF_ERROR(to_runtime(kOperation, runtime, &usable));
    const mhc::Isa best = mhc::best_available_isa();
    *isa = static_cast<mhc_isa>(best < usable->ceiling ? best : usable->ceiling);
    return {};
  });
}

}  // extern "C"
