/* Tensors, element types, status codes, and the spec that selects one member of the family. */
#ifndef MHC_TYPES_H_
#define MHC_TYPES_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MHC_EXPORT __attribute__((visibility("default")))
#else
#define MHC_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status ---------------------------------------------------------------------------------- */

/* Every function that can fail returns one of these; nothing has been written then. */
typedef int32_t mhc_status;
enum {
  MHC_OK = 0,
  MHC_INVALID_ARGUMENT = 1, /* the arguments contradict the contract */
  MHC_UNSUPPORTED = 2,      /* a form, type or size that has a name but is not built */
  MHC_OUT_OF_MEMORY = 3,
  MHC_BAD_INPUT = 4 /* a file or the environment holds something unusable */
};

/* The message of the last call on this thread that failed, one line such as
 *   post: h_res: expected shape [T=128, n=4, n=4], got [128, 4, 5]
 * and "" when none has. Owned by the library; valid until the next failing call on the same thread.
 */
MHC_EXPORT const char* mhc_last_error(void);

/* "ok", "invalid argument", ...; never NULL. */
MHC_EXPORT const char* mhc_status_name(mhc_status status);

/* ---- Tensors --------------------------------------------------------------------------------- */

typedef int32_t mhc_dtype;
enum { MHC_F32 = 0, MHC_BF16 = 1, MHC_F16 = 2, MHC_F64 = 3 };

/* "f32", ...; NULL for anything else. */
MHC_EXPORT const char* mhc_dtype_name(mhc_dtype dtype);

/* A view of the caller's memory: up to three extents, strides in elements. rank 0 means that the
 * tensor is absent, so that zero-initialised memory is an absent tensor. data may be NULL when an
 * extent is 0. data must be a multiple of the element's size; no other alignment is ever required.
 */
typedef struct mhc_tensor {
  void* data;
  mhc_dtype dtype;
  int32_t rank;
  int64_t shape[3];
  int64_t stride[3];
} mhc_tensor;

/* Contiguous tensors of 1, 2 and 3 extents. */
static inline mhc_tensor mhc_tensor_3d(void* data, mhc_dtype dtype, int64_t a, int64_t b,
                                       int64_t c) {
  mhc_tensor t;
  t.data = data;
  t.dtype = dtype;
  t.rank = 3;
  t.shape[0] = a;
  t.shape[1] = b;
  t.shape[2] = c;
  t.stride[0] =
      (int64_t)((uint64_t)b * (uint64_t)c); /* an overflow is found by the call's own check */
  t.stride[1] = c;
  t.stride[2] = 1;
  return t;
}
static inline mhc_tensor mhc_tensor_2d(void* data, mhc_dtype dtype, int64_t a, int64_t b) {
  mhc_tensor t = mhc_tensor_3d(data, dtype, a, b, 0);
  t.rank = 2;
  t.stride[0] = b;
  t.stride[1] = 1;
  t.stride[2] = 0;
  return t;
}
static inline mhc_tensor mhc_tensor_1d(void* data, mhc_dtype dtype, int64_t a) {
  mhc_tensor t = mhc_tensor_2d(data, dtype, a, 0);
  t.rank = 1;
  t.stride[0] = 1;
  t.stride[1] = 0;
  return t;
}

/* ---- Spec ------------------------------------------------------------------------------------ */

/* How h_res is made of its logits. The names are those of mhc_manifold_name(). */
typedef int32_t mhc_manifold;
enum {
  MHC_SINKHORN = 0,      /* mHC, arXiv 2512.24880:      n*n logits, n <= 16 */
  MHC_PERMUTATION = 1,   /* mHC-lite, arXiv 2601.05732:  n! logits, n <= 5 */
  MHC_UNCONSTRAINED = 2, /* h_res is the logits:        n*n logits, n <= 16 */
  MHC_IDENTITY = 3       /* h_res = I (iHC):              0 logits, n <= 16 */
};

enum { MHC_FORM_SOFTMAX = 0 };
enum { MHC_INPUT_OUTPUT = 0, MHC_OUTPUT_INPUT = 1 };
enum { MHC_NORM_INSIDE = 0, MHC_NORM_OUTSIDE = 1 };
enum { MHC_FLOAT32 = 0, MHC_BFLOAT16 = 1 };
enum { MHC_GATE_FLOAT32 = 0, MHC_GATE_ACTIVATION = 1 };

/* A site has pre, post and res coefficients: m = 2n + L. The head at the top of a stack has pre
 * alone: m = n. */
typedef int32_t mhc_kind;
enum { MHC_SITE = 0, MHC_HEAD = 1 };

/* Every convention in which public implementations differ. Checked as a whole by each call. */
typedef struct mhc_spec {
  size_t size;     /* sizeof(mhc_spec) */
  int64_t streams; /* n, 1 to the manifold's limit */
  mhc_manifold manifold;
  int32_t iterations;    /* sinkhorn: 1 to 1000 */
  int32_t form;          /* sinkhorn: MHC_FORM_SOFTMAX */
  int32_t matrix_order;  /* whether the rows of the manifold's matrix are input or output streams */
  double eps;            /* sinkhorn: added to the softmax and to every sum divided by; >= 0 */
  double norm_eps;       /* >= 1.2e-38 */
  double pre_eps;        /* h_pre = sigmoid(logit) + pre_eps; >= 0 */
  double post_mult;      /* h_post = post_mult sigmoid(logit) */
  int32_t norm_form;     /* 1/sqrt(ms + norm_eps) inside, 1/(sqrt(ms) + norm_eps) outside */
  int32_t phi_precision; /* MHC_BFLOAT16: phi * norm_weight is rounded once; gradients of phi and
                            norm_weight take the rounding as the identity */
  int32_t gradient_precision; /* MHC_BFLOAT16: d_z is rounded once, in all of its uses */
  int32_t h_pre_precision; /* MHC_GATE_ACTIVATION: h_pre is rounded to x's type before it multiplies
                              x */
  int32_t h_post_precision; /* the same for h_post */
  int32_t h_res_precision;  /* the same for h_res */
} mhc_spec;

/* Fills *spec (size included) with a named set:
 *   deepseek_v4       sinkhorn, 20 iterations, every eps 1e-6, post_mult 2, all float32
 *   hf_deepseek_v4    the same with h_post and h_res rounded to x's type
 *   maxtext_lite      permutation, norm_eps 1e-5, phi rounded to bfloat16, h_res to x's type
 *   maxtext_sinkhorn  sinkhorn, norm_eps 1e-5, all float32
 *   liger             sinkhorn in output_input order, pre_eps 0, all float32
 * with n = 4. MHC_INVALID_ARGUMENT lists the names when there is no such set. */
MHC_EXPORT mhc_status mhc_spec_preset(const char* name, mhc_spec* spec);

/* The index-th of these names, NULL past the end. */
MHC_EXPORT const char* mhc_preset_name(int32_t index);

/* L, the logits of the manifold, and m, all coefficients of a kind. */
MHC_EXPORT mhc_status mhc_spec_logits(const mhc_spec* spec, int64_t* logits);
MHC_EXPORT mhc_status mhc_spec_coefficients(const mhc_spec* spec, mhc_kind kind,
                                            int64_t* coefficients);

/* The manifold of a name, and the name of one; NULL when there is none. The index-th of all ids: -1
 * past the end. */
MHC_EXPORT mhc_status mhc_manifold_from_name(const char* name, mhc_manifold* manifold);
MHC_EXPORT const char* mhc_manifold_name(mhc_manifold manifold);
MHC_EXPORT mhc_manifold mhc_manifold_at(int32_t index);

#ifdef __cplusplus
}
#endif

#endif /* MHC_TYPES_H_ */
