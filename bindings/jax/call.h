#pragma once
// One call of the library from XLA: operands and results in their canonical order, the spec from the
// attributes, workspace, and errors.
//
// Every handler has the signature (pool, operands, results, attributes). Operands and results that a
// call does not have are left out of the lists; the attributes `inputs` and `outputs` are masks in
// which bit k stands for the k-th that the operation could have, in the order in which the handler
// asks for them. The same order stands in python/mhc_kernels/jax/_signatures.py.

#include <mhc/mhc.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>

#include "executor.h"
#include "xla/ffi/api/ffi.h"

namespace mhc_jax {

namespace ffi = xla::ffi;

class Call {
 public:
  // name: the operation's, for messages.
  Call(const char* name, ffi::ThreadPool& pool, ffi::RemainingArgs operands,
       ffi::RemainingRets results, ffi::Dictionary attributes);

  // The next operand or result that the operation could have, absent if this call lacks it. All but
  // the last `trailing` extents are tokens: [..., n, D] becomes [T, n, D] with trailing = 2.
  mhc_tensor input(int trailing);
  mhc_tensor output(int trailing);
  // The same with its own shape: what has no tokens.
  mhc_tensor whole_input();
  mhc_tensor whole_output();

  mhc_params params();              // phi, alpha, bias, norm_weight
  mhc_param_gradients gradients();  // in the same order

  const mhc_spec* spec() const { return &spec_; }
  int64_t integer(const char* name);  // an attribute

  // The kind, sizes and type that decide how much workspace an operation needs.
  struct Sizes {
    mhc_operation operation;
    mhc_kind kind;
    int64_t tokens;
    int64_t embedding;
    mhc_dtype activation;
  };
  static Sizes sizes(mhc_operation operation, const mhc_tensor& x, mhc_kind kind = MHC_SITE) {
    return {operation, kind, x.shape[0], x.shape[2], x.dtype};
  }

  template <class Args>
  ffi::Error run(mhc_status (*function)(const Args*, const mhc_runtime*), const Args& args) {
    if (!error_.empty()) return ffi::Error::InvalidArgument(error_);
    return to_error(function(&args, runtime_.get()));
  }

  template <class Args>
  ffi::Error run(mhc_status (*function)(const Args*, const mhc_runtime*), Args args,
                 const Sizes& sizes) {
    if (error_.empty() && !make_workspace(sizes, &args.workspace)) {
      return ffi::Error(ffi::ErrorCode::kResourceExhausted, error_);
    }
    return run(function, args);
  }

  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  mhc_tensor tensor(const ffi::AnyBuffer& buffer, int trailing);
  mhc_tensor next_input(int trailing);
  mhc_tensor next_output(int trailing);
  // False, with error_ set, where there is no memory for it.
  bool make_workspace(const Sizes& sizes, mhc_workspace* workspace);
  ffi::Error to_error(mhc_status status);
  void read_spec();
  template <class T>
  T attribute(const char* name);

  const char* name_;
  PoolRuntime runtime_;
  ffi::RemainingArgs operands_;
  ffi::RemainingRets results_;
  ffi::Dictionary attributes_;
  mhc_spec spec_{};
  std::string error_;  // the first fault of the call's form, "" when there is none
  uint64_t input_mask_ = 0, output_mask_ = 0;
  size_t next_operand_ = 0, next_result_ = 0;
  void* workspace_ = nullptr;
};

}  // namespace mhc_jax

// Defines the symbol mhc_jax_<name> of a function mhc_jax::run_<name>(Call&), outside of namespaces.
// No exception may reach XLA: what is left to throw is a small allocation.
#define MHC_JAX_HANDLER(name)                                                                   \
  static xla::ffi::Error handle_##name(xla::ffi::ThreadPool pool, xla::ffi::RemainingArgs in,   \
                                       xla::ffi::RemainingRets out, xla::ffi::Dictionary a) {   \
    try {                                                                                       \
      mhc_jax::Call call(#name, pool, in, out, a);                                              \
      return mhc_jax::run_##name(call);                                                         \
    } catch (const std::exception& error) {                                                     \
      return {xla::ffi::ErrorCode::kResourceExhausted, std::string(#name ": ") + error.what()}; \
    }                                                                                           \
  }                                                                                             \
  extern "C" MHC_EXPORT XLA_FFI_Error* mhc_jax_##name(XLA_FFI_CallFrame*);                      \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(                                                                \
      mhc_jax_##name, handle_##name,                                                            \
      xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>().RemainingArgs().RemainingRets().Attrs())
