#include "call.h"

#include <mutex>
#include <new>
#include <utility>

namespace mhc_jax {
namespace {

// XLA's CPU has no scratch memory for handlers, and a result made for it would be fresh pages in
// every call. So the memory stays here between calls, one block for each call that runs at once.
// Contents are never kept and never cleared: touching a page is what costs.
class Workspaces {
 public:
  struct Block {
    std::byte* memory = nullptr;
    size_t bytes = 0;
    Block* next = nullptr;  // among the free ones
  };

  // A block of at least so many bytes, or null where there is no such memory.
  Block* take(size_t bytes) {
    Block* block = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (free_ != nullptr) block = std::exchange(free_, free_->next);
    }
    if (block == nullptr) block = new (std::nothrow) Block;
    if (block == nullptr || block->bytes >= bytes) return block;
    ::operator delete(block->memory, kAlignment);  // the old one first: that makes room
    block->memory = static_cast<std::byte*>(::operator new(bytes, kAlignment, std::nothrow));
    block->bytes = block->memory == nullptr ? 0 : bytes;
    if (block->memory != nullptr) return block;
    give_back(block);
    return nullptr;
  }
  void give_back(Block* block) {
    const std::lock_guard lock(mutex_);
    block->next = std::exchange(free_, block);
  }

  static Workspaces& all() {
    static auto* const workspaces = new Workspaces;
    return *workspaces;
  }

 private:
  static constexpr std::align_val_t kAlignment{64};  // a cache line, a vector

  std::mutex mutex_;
  Block* free_ = nullptr;
};

bool to_dtype(ffi::DataType type, mhc_dtype* out) {
  switch (type) {
    case ffi::DataType::F32:
      *out = MHC_F32;
      return true;
    case ffi::DataType::BF16:
      *out = MHC_BF16;
      return true;
    case ffi::DataType::F16:
      *out = MHC_F16;
      return true;
    case ffi::DataType::F64:
      *out = MHC_F64;
      return true;
    default:
      return false;
  }
}

}  // namespace

Call::Call(const char* name, ffi::ThreadPool& pool, ffi::RemainingArgs operands,
           ffi::RemainingRets results, ffi::Dictionary attributes)
    : name_(name), runtime_(pool), operands_(operands), results_(results), attributes_(attributes) {
  if (runtime_.get() == nullptr) error_ = mhc_last_error();
  input_mask_ = static_cast<uint64_t>(integer("inputs"));
  output_mask_ = static_cast<uint64_t>(integer("outputs"));
  if (attributes_.contains("streams")) read_spec();
}

Call::~Call() {
  if (workspace_ != nullptr) {
    Workspaces::all().give_back(static_cast<Workspaces::Block*>(workspace_));
  }
}

template <class T>
T Call::attribute(const char* name) {
  const ffi::ErrorOr<T> value = attributes_.get<T>(name);
  if (value.has_value()) return *value;
  if (error_.empty()) error_ = std::string("attribute ") + name + ": absent or of another type";
  return T{};
}

int64_t Call::integer(const char* name) { return attribute<int64_t>(name); }

void Call::read_spec() {
  const auto small = [&](const char* name) { return attribute<int32_t>(name); };
  spec_.size = sizeof(spec_);
  spec_.streams = attribute<int64_t>("streams");
  spec_.manifold = small("manifold");
  spec_.iterations = small("iterations");
  spec_.form = small("form");
  spec_.matrix_order = small("matrix_order");
  spec_.eps = attribute<double>("eps");
  spec_.norm_eps = attribute<double>("norm_eps");
  spec_.pre_eps = attribute<double>("pre_eps");
  spec_.post_mult = attribute<double>("post_mult");
  spec_.norm_form = small("norm_form");
  spec_.phi_precision = small("phi_precision");
  spec_.gradient_precision = small("gradient_precision");
  spec_.h_pre_precision = small("h_pre_precision");
  spec_.h_post_precision = small("h_post_precision");
  spec_.h_res_precision = small("h_res_precision");
}

mhc_tensor Call::tensor(const ffi::AnyBuffer& buffer, int trailing) {
  mhc_tensor none{};
  const auto dims = buffer.dimensions();
  const int rank = static_cast<int>(dims.size());
  mhc_dtype dtype = MHC_F32;
  const int extents = trailing < 0 ? rank : trailing + 1;
  if (!to_dtype(buffer.element_type(), &dtype) || extents > 3 || rank < trailing) {
    if (error_.empty()) error_ = "an operand or result has a type or rank that is not known";
    return none;
  }
  int64_t shape[3] = {1, 1, 1};
  const int leading = rank - (extents - (trailing < 0 ? 0 : 1));
  if (trailing < 0) {
    for (int k = 0; k < rank; ++k) shape[k] = dims[k];
  } else {
    for (int k = 0; k < leading; ++k) shape[0] *= dims[k];
    for (int k = leading; k < rank; ++k) shape[1 + k - leading] = dims[k];
  }
  void* const data = buffer.untyped_data();
  switch (extents) {
    case 1:
      return mhc_tensor_1d(data, dtype, shape[0]);
    case 2:
      return mhc_tensor_2d(data, dtype, shape[0], shape[1]);
    default:
      return mhc_tensor_3d(data, dtype, shape[0], shape[1], shape[2]);
  }
}

mhc_tensor Call::next_input(int trailing) {
  const bool present = (input_mask_ & 1) != 0;
  input_mask_ >>= 1;
  if (!present) return mhc_tensor{};
  const auto buffer = operands_.get<ffi::AnyBuffer>(next_operand_++);
  if (buffer.has_value()) return tensor(*buffer, trailing);
  if (error_.empty()) error_ = "fewer operands than the attribute inputs says";
  return mhc_tensor{};
}

mhc_tensor Call::next_output(int trailing) {
  const bool present = (output_mask_ & 1) != 0;
  output_mask_ >>= 1;
  if (!present) return mhc_tensor{};
  auto buffer = results_.get<ffi::AnyBuffer>(next_result_++);
  if (buffer.has_value()) return tensor(**buffer, trailing);
  if (error_.empty()) error_ = "fewer results than the attribute outputs says";
  return mhc_tensor{};
}

mhc_tensor Call::input(int trailing) { return next_input(trailing); }
mhc_tensor Call::output(int trailing) { return next_output(trailing); }
mhc_tensor Call::whole_input() { return next_input(-1); }
mhc_tensor Call::whole_output() { return next_output(-1); }

mhc_params Call::params() {
  mhc_params p{};
  p.phi = whole_input();
  p.alpha = whole_input();
  p.bias = whole_input();
  p.norm_weight = whole_input();
  return p;
}

mhc_param_gradients Call::gradients() {
  mhc_param_gradients g{};
  g.d_phi = whole_output();
  g.d_alpha = whole_output();
  g.d_bias = whole_output();
  g.d_norm_weight = whole_output();
  return g;
}

bool Call::make_workspace(const Sizes& sizes, mhc_workspace* workspace) {
  mhc_problem problem{};
  problem.size = sizeof(problem);
  problem.spec = &spec_;
  problem.kind = sizes.kind;
  problem.tokens = sizes.tokens;
  problem.embedding = sizes.embedding;
  problem.activation = sizes.activation;
  size_t bytes = 0;
  // What it refuses the call itself refuses too, naming the argument.
  if (mhc_workspace_bytes(sizes.operation, &problem, runtime_.get(), &bytes) != MHC_OK) return true;
  if (bytes == 0) return true;
  Workspaces::Block* const block = Workspaces::all().take(bytes);
  if (block == nullptr) {
    error_ = std::string(name_) + ": workspace: expected " + std::to_string(bytes) +
             " bytes of memory, got none";
    return false;
  }
  workspace_ = block;
  *workspace = {block->memory, block->bytes};
  return true;
}

ffi::Error Call::to_error(mhc_status status) {
  switch (status) {
    case MHC_OK:
      return ffi::Error::Success();
    case MHC_INVALID_ARGUMENT:
      return ffi::Error::InvalidArgument(mhc_last_error());
    case MHC_UNSUPPORTED:
      return ffi::Error(ffi::ErrorCode::kUnimplemented, mhc_last_error());
    case MHC_OUT_OF_MEMORY:
      return ffi::Error(ffi::ErrorCode::kResourceExhausted, mhc_last_error());
    default:
      return ffi::Error::Internal(mhc_last_error());
  }
}

}  // namespace mhc_jax
