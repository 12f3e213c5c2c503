// The C++20 face of <mhc/mhc.h>: the same structs and functions with types, defaults and
// exceptions. Header-only, over the C interface alone, so that no C++ type crosses the library's
// border.
//
//   mhc::Spec spec = mhc::Spec::preset("deepseek_v4");
//   mhc::PreArgs args(spec);
//   args.x = mhc::tensor(x, {tokens, 4, 3072});
//   ...
//   mhc::pre(args, workspace);
//
// What the fields mean, and their shapes, stands beside the C structs in <mhc/operations.h>.
#ifndef MHC_MHC_HPP_
#define MHC_MHC_HPP_

#include <mhc/mhc.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace mhc {
inline namespace v0 {

// Whatever the C interface refused; what() is mhc_last_error().
class Error : public std::runtime_error {
 public:
  Error(mhc_status status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  mhc_status status() const noexcept { return status_; }

 private:
  mhc_status status_;
};

// The arguments contradict the contract, or name something that is not built.
class ContractError : public Error {
 public:
  using Error::Error;
};

inline void check(mhc_status status) {
  if (status == MHC_OK) return;
  if (status == MHC_OUT_OF_MEMORY) throw std::bad_alloc();
  if (status == MHC_BAD_INPUT) throw Error(status, mhc_last_error());
  throw ContractError(status, mhc_last_error());
}

// ---- Tensors
// ------------------------------------------------------------------------------------------------

// Storage of 16-bit elements.
struct BFloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};

template <class T>
constexpr mhc_dtype dtype_of() {
  if constexpr (std::is_same_v<T, float>) {
    return MHC_F32;
  } else if constexpr (std::is_same_v<T, double>) {
    return MHC_F64;
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return MHC_BF16;
  } else {
    static_assert(std::is_same_v<T, Float16>, "float, double, mhc::BFloat16 or mhc::Float16");
    return MHC_F16;
  }
}

using Tensor = mhc_tensor;

// A contiguous view; inputs may be const, which the library honours.
inline Tensor tensor(void* data, mhc_dtype dtype, std::initializer_list<std::int64_t> shape) {
  const std::int64_t* s = shape.begin();
  switch (shape.size()) {
    case 1:
      return mhc_tensor_1d(data, dtype, s[0]);
    case 2:
      return mhc_tensor_2d(data, dtype, s[0], s[1]);
    case 3:
      return mhc_tensor_3d(data, dtype, s[0], s[1], s[2]);
    default:
      throw ContractError(MHC_INVALID_ARGUMENT, "tensor: shape: expected 1 to 3 extents, got " +
                                                    std::to_string(shape.size()));
  }
}
template <class T>
Tensor tensor(T* data, std::initializer_list<std::int64_t> shape) {
  using Element = std::remove_const_t<T>;
  return tensor(const_cast<Element*>(data), dtype_of<Element>(), shape);
}
template <class T, class A>
Tensor tensor(std::vector<T, A>& data, std::initializer_list<std::int64_t> shape) {
  return tensor(data.data(), shape);
}
template <class T, class A>
Tensor tensor(const std::vector<T, A>& data, std::initializer_list<std::int64_t> shape) {
  return tensor(data.data(), shape);
}

// T, n and D, always in this order.
struct Dims {
  std::int64_t tokens = 0;
  std::int64_t streams = 0;
  std::int64_t embedding = 0;
};

// ---- Spec
// ---------------------------------------------------------------------------------------------------

// Starts as the preset deepseek_v4; the fields are those of mhc_spec.
struct Spec : mhc_spec {
  Spec() : mhc_spec{} { check(mhc_spec_preset("deepseek_v4", this)); }

  static Spec preset(const char* name) {
    Spec spec;
    check(mhc_spec_preset(name, &spec));
    return spec;
  }
  static Spec preset(const std::string& name) { return preset(name.c_str()); }

  void set_manifold(const char* name) { check(mhc_manifold_from_name(name, &manifold)); }

  // L, and m of a site or head.
  std::int64_t logits() const {
    std::int64_t value = 0;
    check(mhc_spec_logits(this, &value));
    return value;
  }
  std::int64_t coefficients(mhc_kind kind = MHC_SITE) const {
    std::int64_t value = 0;
    check(mhc_spec_coefficients(this, kind, &value));
    return value;
  }
};

// ---- Runtime
// ------------------------------------------------------------------------------------------------

struct RuntimeOptions : mhc_runtime_options {
  RuntimeOptions() : mhc_runtime_options{} { size = sizeof(mhc_runtime_options); }

  static RuntimeOptions from_environment() {
    RuntimeOptions options;
    check(mhc_runtime_options_from_environment(&options));
    return options;
  }
};

// Owns an mhc_runtime; one that is default-constructed is the library's default. Movable.
class Runtime {
 public:
  Runtime() = default;
  explicit Runtime(const RuntimeOptions& options) {
    mhc_runtime* made = nullptr;
    check(mhc_runtime_create(&options, &made));
    runtime_.reset(made);
  }

  const mhc_runtime* get() const noexcept { return runtime_.get(); }

  std::int32_t workers() const {
    std::int32_t value = 0;
    check(mhc_runtime_workers(get(), &value));
    return value;
  }
  mhc_isa isa() const {
    mhc_isa value = 0;
    check(mhc_runtime_isa(get(), &value));
    return value;
  }

 private:
  struct Destroy {
    void operator()(mhc_runtime* runtime) const noexcept { mhc_runtime_destroy(runtime); }
  };
  std::unique_ptr<mhc_runtime, Destroy> runtime_;
};

// ---- Arguments
// ----------------------------------------------------------------------------------------------

// A C struct of arguments that knows its size and begins with every tensor absent.
template <class C>
struct Args : C {
  Args() : C{} { this->size = sizeof(C); }
};

// The same with a spec, which it refers to.
template <class C>
struct SpecArgs : Args<C> {
  explicit SpecArgs(const Spec& s) { this->spec = &s; }
  explicit SpecArgs(Spec&&) = delete;
};

using Params = mhc_params;
using ParamGradients = mhc_param_gradients;

using PreArgs = SpecArgs<mhc_pre_args>;
using PreBackwardArgs = SpecArgs<mhc_pre_backward_args>;
using PostArgs = SpecArgs<mhc_post_args>;
using PostBackwardArgs = SpecArgs<mhc_post_backward_args>;
using CoefficientsArgs = SpecArgs<mhc_coefficients_args>;
using CoefficientsBackwardArgs = SpecArgs<mhc_coefficients_backward_args>;
using ProjectPartialArgs = SpecArgs<mhc_project_partial_args>;
using ProjectPartialBackwardArgs = SpecArgs<mhc_project_partial_backward_args>;
using CoefficientsFromPartialsArgs = SpecArgs<mhc_coefficients_from_partials_args>;
using CoefficientsFromPartialsBackwardArgs = SpecArgs<mhc_coefficients_from_partials_backward_args>;
using ApplyPreArgs = SpecArgs<mhc_apply_pre_args>;
using ApplyPreBackwardArgs = SpecArgs<mhc_apply_pre_backward_args>;
using ApplyPostArgs = PostArgs;
using ApplyPostBackwardArgs = PostBackwardArgs;
using HeadArgs = SpecArgs<mhc_head_args>;
using HeadBackwardArgs = SpecArgs<mhc_head_backward_args>;
using ExpandArgs = Args<mhc_expand_args>;
using ExpandBackwardArgs = Args<mhc_expand_backward_args>;
using ReduceArgs = Args<mhc_reduce_args>;
using ReduceBackwardArgs = Args<mhc_reduce_backward_args>;

// ---- Workspace
// ----------------------------------------------------------------------------------------------

inline mhc_problem problem(const Spec& spec, const Dims& dims, mhc_dtype activation,
                           mhc_kind kind = MHC_SITE) {
  mhc_problem p{};
  p.size = sizeof(p);
  p.spec = &spec;
  p.kind = kind;
  p.tokens = dims.tokens;
  p.embedding = dims.embedding;
  p.activation = activation;
  return p;
}

inline std::size_t workspace_bytes(mhc_operation operation, const mhc_problem& problem,
                                   const Runtime& runtime = {}) {
  std::size_t bytes = 0;
  check(mhc_workspace_bytes(operation, &problem, runtime.get(), &bytes));
  return bytes;
}

// Memory that grows to what each call needs and is kept between calls; one for each thread that
// calls.
class Workspace {
 public:
  mhc_workspace get(std::size_t bytes) {
    if (bytes > size_) {
      memory_.reset();
      memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
      size_ = bytes;
    }
    return {memory_.get(), size_};
  }
  mhc_workspace get(mhc_operation operation, const mhc_problem& problem,
                    const Runtime& runtime = {}) {
    return get(workspace_bytes(operation, problem, runtime));
  }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t size_ = 0;
};

// Phi in the projection's order, to be packed anew whenever phi or norm_weight has changed.
class PackedPhi {
 public:
  PackedPhi(const mhc_problem& problem, const Tensor& phi, const Tensor& norm_weight = Tensor{},
            const Runtime& runtime = {}) {
    std::size_t bytes = 0;
    check(mhc_packed_phi_bytes(&problem, runtime.get(), &bytes));
    memory_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    Args<mhc_pack_phi_args> args;
    args.problem = problem;
    args.phi = phi;
    args.norm_weight = norm_weight;
    args.packed = memory_.get();
    args.packed_bytes = bytes;
    check(mhc_pack_phi(&args, runtime.get()));
    packed_ = {memory_.get(), bytes};
  }
  mhc_packed_phi get() const noexcept { return packed_; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  mhc_packed_phi packed_{};
};

// ---- Operations
// ---------------------------------------------------------------------------------------------

// Operations with a workspace take it as they are, with args.workspace, or from a Workspace, which
// they size.
namespace detail {

template <class C>
using Function = mhc_status(const C*, const mhc_runtime*);

template <class C>
void run(Function<C>* function, const std::type_identity_t<C>& args, const Runtime& runtime) {
  check(function(&args, runtime.get()));
}

// tokens, embedding and type of the tensor that decides them.
template <class C>
mhc_problem problem_of(const C& args, const Tensor& decisive) {
  mhc_problem p{};
  p.size = sizeof(p);
  p.spec = args.spec;
  if constexpr (requires { args.kind; }) p.kind = args.kind;
  p.tokens = decisive.shape[0];
  if constexpr (requires { args.embedding_total; }) {
    p.embedding = args.embedding_total;
  } else {
    p.embedding = decisive.shape[2];
  }
  p.activation = decisive.dtype;
  return p;
}

// Arguments for which no workspace can be sized are left to the call itself, whose message names
// them.
template <class C>
void run(Function<C>* function, std::type_identity_t<C> args, const Tensor& decisive,
         mhc_operation operation, Workspace& workspace, const Runtime& runtime) {
  const mhc_problem p = problem_of(args, decisive);
  std::size_t bytes = 0;
  if (mhc_workspace_bytes(operation, &p, runtime.get(), &bytes) == MHC_OK) {
    args.workspace = workspace.get(bytes);
  }
  check(function(&args, runtime.get()));
}

}  // namespace detail

inline void post(const PostArgs& a, const Runtime& r = {}) { detail::run(mhc_post, a, r); }
inline void post_backward(const PostBackwardArgs& a, const Runtime& r = {}) {
  detail::run(mhc_post_backward, a, r);
}
inline void apply_pre(const ApplyPreArgs& a, const Runtime& r = {}) {
  detail::run(mhc_apply_pre, a, r);
}
inline void apply_pre_backward(const ApplyPreBackwardArgs& a, const Runtime& r = {}) {
  detail::run(mhc_apply_pre_backward, a, r);
}
inline void apply_post(const ApplyPostArgs& a, const Runtime& r = {}) {
  detail::run(mhc_apply_post, a, r);
}
inline void apply_post_backward(const ApplyPostBackwardArgs& a, const Runtime& r = {}) {
  detail::run(mhc_apply_post_backward, a, r);
}
inline void expand(const ExpandArgs& a, const Runtime& r = {}) { detail::run(mhc_expand, a, r); }
inline void expand_backward(const ExpandBackwardArgs& a, const Runtime& r = {}) {
  detail::run(mhc_expand_backward, a, r);
}
inline void reduce(const ReduceArgs& a, const Runtime& r = {}) { detail::run(mhc_reduce, a, r); }
inline void reduce_backward(const ReduceBackwardArgs& a, const Runtime& r = {}) {
  detail::run(mhc_reduce_backward, a, r);
}

#define MHC_WORKSPACE_OPERATION(name, ArgsType, decisive, OPERATION)                            \
  inline void name(const ArgsType& a, const Runtime& r = {}) { detail::run(mhc_##name, a, r); } \
  inline void name(const ArgsType& a, Workspace& w, const Runtime& r = {}) {                    \
    detail::run(mhc_##name, a, a.decisive, OPERATION, w, r);                                    \
  }
MHC_WORKSPACE_OPERATION(pre, PreArgs, x, MHC_OP_PRE)
MHC_WORKSPACE_OPERATION(pre_backward, PreBackwardArgs, x, MHC_OP_PRE_BACKWARD)
MHC_WORKSPACE_OPERATION(coefficients, CoefficientsArgs, x, MHC_OP_COEFFICIENTS)
MHC_WORKSPACE_OPERATION(coefficients_backward, CoefficientsBackwardArgs, x,
                        MHC_OP_COEFFICIENTS_BACKWARD)
MHC_WORKSPACE_OPERATION(project_partial, ProjectPartialArgs, x, MHC_OP_PROJECT_PARTIAL)
MHC_WORKSPACE_OPERATION(project_partial_backward, ProjectPartialBackwardArgs, x,
                        MHC_OP_PROJECT_PARTIAL_BACKWARD)
MHC_WORKSPACE_OPERATION(coefficients_from_partials, CoefficientsFromPartialsArgs, q,
                        MHC_OP_COEFFICIENTS_FROM_PARTIALS)
MHC_WORKSPACE_OPERATION(coefficients_from_partials_backward, CoefficientsFromPartialsBackwardArgs,
                        z, MHC_OP_COEFFICIENTS_FROM_PARTIALS_BACKWARD)
MHC_WORKSPACE_OPERATION(head, HeadArgs, x, MHC_OP_HEAD)
MHC_WORKSPACE_OPERATION(head_backward, HeadBackwardArgs, x, MHC_OP_HEAD_BACKWARD)
#undef MHC_WORKSPACE_OPERATION

}  // namespace v0
}  // namespace mhc

#endif  // MHC_MHC_HPP_
