/* The operations. Letters, types and layouts are those of <mhc/mhc.h>. */
#ifndef MHC_OPERATIONS_H_
#define MHC_OPERATIONS_H_

#include <mhc/runtime.h>
#include <mhc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Every argument struct begins with its own size, so that a caller and a library of different
 * versions find out: initialise with {.size = sizeof(mhc_..._args)} and the rest with zero. */

/* Parameters of a site or head. */
typedef struct mhc_params {
  mhc_tensor phi;   /* [m, n, D] P */
  mhc_tensor alpha; /* [3] P: pre, post, res; [1] for a head */
  mhc_tensor bias;  /* [m] P */
  mhc_tensor
      norm_weight; /* [n, D] P or absent: learned weight of the RMS norm, multiplied into phi */
} mhc_params;

/* Their gradients, each optional: f32 (f64 beside f64) or the parameter's own type; f32 (f64) alone
 * when they are accumulated. d_norm_weight only where there is a norm_weight. */
typedef struct mhc_param_gradients {
  mhc_tensor d_phi;         /* [m, n, D] */
  mhc_tensor d_alpha;       /* [3], [1] for a head */
  mhc_tensor d_bias;        /* [m] */
  mhc_tensor d_norm_weight; /* [n, D] */
} mhc_param_gradients;

/* Scratch of at least mhc_workspace_bytes() bytes, at any address; contents are not kept. */
typedef struct mhc_workspace {
  void* data;
  size_t bytes;
} mhc_workspace;

/* Phi in the order in which the projection reads it, made by mhc_pack_phi. Given in place of
 * params.phi and params.norm_weight, it saves the packing on each call; it is invalid once either
 * has changed, and may not be moved in memory. Optional everywhere; not with f64. */
typedef struct mhc_packed_phi {
  const void* data;
  size_t bytes;
} mhc_packed_phi;

/* ---- One site -------------------------------------------------------------------------------- */

/*   inv_rms[t] = 1 / sqrt(sum_{i,d} x[t,i,d]^2 / (n D) + norm_eps)    or 1 / (sqrt(.) + norm_eps)
 *   z[t,c]     = inv_rms[t] sum_{i,d} phi[c,i,d] norm_weight[i,d] x[t,i,d]
 *   logit[t,c] = alpha[group of c] z[t,c] + bias[c]
 *   h_pre      = sigmoid(logit) + pre_eps
 *   h_post     = post_mult sigmoid(logit)
 *   h_res      = manifold(logit)
 *   layer_input[t,d] = sum_i h_pre[t,i] x[t,i,d]
 *
 * Backward needs x, z and inv_rms again; post needs h_post and h_res. */
typedef struct mhc_pre_args {
  size_t size;
  const mhc_spec* spec;
  mhc_tensor x; /* [T, n, D] A */
  mhc_params params;
  mhc_packed_phi packed_phi; /* optional */
  mhc_tensor layer_input;    /* out [T, D] A, optional like each of the following */
  mhc_tensor z;              /* out [T, m] G */
  mhc_tensor inv_rms;        /* out [T] G */
  mhc_tensor h_pre;          /* out [T, n] G */
  mhc_tensor h_post;         /* out [T, n] G */
  mhc_tensor h_res;          /* out [T, n, n] G */
  mhc_workspace workspace;
} mhc_pre_args;
MHC_EXPORT mhc_status mhc_pre(const mhc_pre_args* args, const mhc_runtime* runtime);

/* x_next[t,j,d] = sum_i h_res[t,i,j] x[t,i,d] + h_post[t,j] layer_output[t,d] */
typedef struct mhc_post_args {
  size_t size;
  const mhc_spec* spec;
  mhc_tensor x;            /* [T, n, D] A */
  mhc_tensor layer_output; /* [T, D] A */
  mhc_tensor h_post;       /* [T, n] G */
  mhc_tensor h_res;        /* [T, n, n] G */
  mhc_tensor x_next;       /* out [T, n, D] A; may be x */
} mhc_post_args;
MHC_EXPORT mhc_status mhc_post(const mhc_post_args* args, const mhc_runtime* runtime);

/* With g = d_x_next:
 *   d_layer_output[t,d] = sum_j h_post[t,j] g[t,j,d]
 *   d_h_post[t,j]       = sum_d g[t,j,d] layer_output[t,d]
 *   d_h_res[t,i,j]      = sum_d x[t,i,d] g[t,j,d]
 *   d_x[t,i,d]          = sum_j h_res[t,i,j] g[t,j,d]
 *
 * The lazy schedule leaves d_x out and hands g itself to mhc_pre_backward (d_x_next there), which
 * mixes it while it has the token in cache; the eager one asks for d_x and hands that on (d_x_post
 * there). An input that no asked output reads may be absent. */
typedef struct mhc_post_backward_args {
  size_t size;
  const mhc_spec* spec;
  mhc_tensor d_x_next;       /* [T, n, D] A */
  mhc_tensor x;              /* [T, n, D] A       for d_h_res */
  mhc_tensor layer_output;   /* [T, D] A          for d_h_post */
  mhc_tensor h_post;         /* [T, n] G          for d_layer_output */
  mhc_tensor h_res;          /* [T, n, n] G       for d_x */
  mhc_tensor d_layer_output; /* out [T, D] A; may be layer_output */
  mhc_tensor d_h_post;       /* out [T, n] G */
  mhc_tensor d_h_res;        /* out [T, n, n] G */
  mhc_tensor d_x;            /* out [T, n, D] A; may be d_x_next */
} mhc_post_backward_args;
MHC_EXPORT mhc_status mhc_post_backward(const mhc_post_backward_args* args,
                                        const mhc_runtime* runtime);

/* With du = d_layer_input, s' the derivative of the sigmoid, M^T the exact backward of the manifold
 * as it ran, phi_eff = phi norm_weight:
 *
 *   d_h_pre' = d_h_pre + sum_d x[t,i,d] du[t,d]
 *   d_logit  = d_h_pre' s' | d_h_post post_mult s' | M^T(d_h_res)
 *   dz = alpha d_logit;   dq = inv_rms dz
 *   d_x[t,i,d] = sum_j h_res[t,i,j] d_x_next[t,j,d]  (or d_x_post[t,i,d])  + h_pre[t,i] du[t,d]
 *              + sum_c dq[t,c] phi_eff[c,i,d] - (inv_rms^2 / (n D)) (sum_c dz z) x[t,i,d]
 *   d_phi_eff[c,i,d] = sum_t dq[t,c] x[t,i,d]
 *   d_bias = sum_t d_logit;   d_alpha = sum_{t,c} d_logit z
 *
 * The terms of d_x are added in f32 and rounded once. The gradients of the parameters are sums in
 * f32 in an order that depends on the shape alone. h_pre and h_res are recomputed from z. */
typedef struct mhc_pre_backward_args {
  size_t size;
  const mhc_spec* spec;
  mhc_tensor x;                  /* [T, n, D] A, as forward had it */
  mhc_params params;             /* as forward had them */
  mhc_tensor z;                  /* [T, m] G, from forward */
  mhc_tensor inv_rms;            /* [T] G, from forward */
  mhc_tensor d_layer_input;      /* [T, D] A, optional like each cotangent: absent means zero */
  mhc_tensor d_h_pre;            /* [T, n] G: what reached h_pre by another way than layer_input */
  mhc_tensor d_h_post;           /* [T, n] G, from mhc_post_backward */
  mhc_tensor d_h_res;            /* [T, n, n] G, likewise */
  mhc_tensor d_x_next;           /* [T, n, D] A: lazy */
  mhc_tensor d_x_post;           /* [T, n, D] A: eager; not both */
  mhc_tensor d_x;                /* out [T, n, D] A, optional; may be d_x_next or d_x_post */
  mhc_param_gradients gradients; /* out */
  int32_t accumulate;            /* 1: gradients are added to what is there */
  mhc_workspace workspace;
} mhc_pre_backward_args;
MHC_EXPORT mhc_status mhc_pre_backward(const mhc_pre_backward_args* args,
                                       const mhc_runtime* runtime);

/* ---- Coefficients alone ---------------------------------------------------------------------- */

/* mhc_pre without layer_input, for gates that are used elsewhere, and its backward. */
typedef struct mhc_coefficients_args {
  size_t size;
  const mhc_spec* spec;
  mhc_tensor x; /* [T, n, D] A */
  mhc_params params;
  mhc_packed_phi packed_phi; /* optional */
  mhc_tensor z;              /* out [T, m] G, optional like each of the following */
  mhc_tensor inv_rms;        /* out [T] G */
  mhc_tensor h_pre;          /* out [T, n] G */
  mhc_tensor h_post;         /* out [T, n] G */
  mhc_tensor h_res;          /* out [T, n, n] G */
  mhc_workspace workspace;
} mhc_coefficients_args;
MHC_EXPORT mhc_status mhc_coefficients(const mhc_coefficients_args* args,
                                       const mhc_runtime* runtime);

typedef struct mhc_coefficients_backward_args {
  size_t size;
  const mhc_spec* spec;
  mhc_tensor x; /* [T, n, D] A */
  mhc_params params;
  mhc_tensor z;        /* [T, m] G, from forward */
  mhc_tensor inv_rms;  /* [T] G, from forward */
  mhc_tensor d_h_pre;  /* [T, n] G, optional like each cotangent */
  mhc_tensor d_h_post; /* [T, n] G */
  mhc_tensor d_h_res;  /* [T, n, n] G */
  mhc_tensor d_x;      /* out [T, n, D] A, optional */
  mhc_param_gradients gradients;
  int32_t accumulate;
  mhc_workspace workspace;
} mhc_coefficients_backward_args;
MHC_EXPORT mhc_status mhc_coefficients_backward(const mhc_coefficients_backward_args* args,
                                                const mhc_runtime* runtime);

/* ---- Features sharded over devices ----------------------------------------------------------- */

/* Each shard has some of the D features of every stream. Forward: mhc_project_partial on each; the
 * caller adds q and sum_squares up over the shards (m + 1 numbers per token);
 * mhc_coefficients_from_partials on the sums; mhc_apply_pre and mhc_apply_post on each shard's
 * features. Backward: the partial d_h_* of the apply operations are added up over the shards first;
 * then mhc_coefficients_from_partials_backward, whose d_alpha and d_bias are total and must not be
 * added up again; then mhc_project_partial_backward on each shard.
 *
 *   q[t,c]         = sum_{i,d} phi[c,i,d] norm_weight[i,d] x[t,i,d]
 *   sum_squares[t] = sum_{i,d} x[t,i,d]^2 */
typedef struct mhc_project_partial_args {
  size_t size;
  const mhc_spec* spec;
  mhc_kind kind;
  mhc_tensor x;              /* [T, n, D] A, D of this shard */
  mhc_tensor phi;            /* [m, n, D] P */
  mhc_tensor norm_weight;    /* [n, D] P, optional */
  mhc_packed_phi packed_phi; /* optional */
  mhc_tensor q;              /* out [T, m] G, optional */
  mhc_tensor sum_squares;    /* out [T] G, optional */
  mhc_workspace workspace;
} mhc_project_partial_args;
MHC_EXPORT mhc_status mhc_project_partial(const mhc_project_partial_args* args,
                                          const mhc_runtime* runtime);

/* d_x[t,i,d] = d_x_post[t,i,d] + sum_c d_q[t,c] phi_eff[c,i,d] + 2 d_sum_squares[t] x[t,i,d] */
typedef struct mhc_project_partial_backward_args {
  size_t size;
  const mhc_spec* spec;
  mhc_kind kind;
  mhc_tensor x;             /* [T, n, D] A */
  mhc_tensor phi;           /* [m, n, D] P */
  mhc_tensor norm_weight;   /* [n, D] P, optional */
  mhc_tensor d_q;           /* [T, m] G */
  mhc_tensor d_sum_squares; /* [T] G, optional: absent means zero */
  mhc_tensor d_x_post;      /* [T, n, D] A, optional: what reached x by other ways */
  mhc_tensor d_x;           /* out [T, n, D] A, optional; may be d_x_post */
  mhc_tensor d_phi;         /* out [m, n, D], optional */
  mhc_tensor d_norm_weight; /* out [n, D], optional */
  int32_t accumulate;
  mhc_workspace workspace;
} mhc_project_partial_backward_args;
MHC_EXPORT mhc_status mhc_project_partial_backward(const mhc_project_partial_backward_args* args,
                                                   const mhc_runtime* runtime);

/* The formulas of mhc_pre from q and sum_squares on. All tensors are f32, or all f64. */
typedef struct mhc_coefficients_from_partials_args {
  size_t size;
  const mhc_spec* spec;
  mhc_kind kind;
  int64_t embedding_total; /* D of all shards together */
  mhc_tensor q;            /* [T, m] */
  mhc_tensor sum_squares;  /* [T] */
  mhc_tensor alpha;        /* [3] or [1] P */
  mhc_tensor bias;         /* [m] P */
  mhc_tensor z;            /* out [T, m], optional like each of the following */
  mhc_tensor inv_rms;      /* out [T] */
  mhc_tensor h_pre;        /* out [T, n] */
  mhc_tensor h_post;       /* out [T, n], not for a head */
  mhc_tensor h_res;        /* out [T, n, n], not for a head */
  mhc_workspace workspace;
} mhc_coefficients_from_partials_args;
MHC_EXPORT mhc_status mhc_coefficients_from_partials(
    const mhc_coefficients_from_partials_args* args, const mhc_runtime* runtime);

/*   d_q = inv_rms dz
 *   d_sum_squares = -(inv_rms^2 / (2 n D)) sum_c dz z
 *
 * With norm_form outside inv_rms / rms stands in place of inv_rms^2, and 0 for a zero token. */
typedef struct mhc_coefficients_from_partials_backward_args {
  size_t size;
  const mhc_spec* spec;
  mhc_kind kind;
  int64_t embedding_total;
  mhc_tensor z;             /* [T, m], from forward */
  mhc_tensor inv_rms;       /* [T], from forward */
  mhc_tensor sum_squares;   /* [T]; needed for d_sum_squares with norm_form outside */
  mhc_tensor alpha;         /* [3] or [1] P */
  mhc_tensor bias;          /* [m] P */
  mhc_tensor d_h_pre;       /* [T, n], optional like each cotangent */
  mhc_tensor d_h_post;      /* [T, n], not for a head */
  mhc_tensor d_h_res;       /* [T, n, n], not for a head */
  mhc_tensor d_q;           /* out [T, m], optional like each of the following */
  mhc_tensor d_sum_squares; /* out [T] */
  mhc_tensor d_alpha;       /* out [3] or [1] */
  mhc_tensor d_bias;        /* out [m] */
  int32_t accumulate;       /* 1: d_alpha and d_bias are added to what is there */
  mhc_workspace workspace;
} mhc_coefficients_from_partials_backward_args;
MHC_EXPORT mhc_status mhc_coefficients_from_partials_backward(
    const mhc_coefficients_from_partials_backward_args* args, const mhc_runtime* runtime);

/* ---- The halves alone, with given gates and true cotangents ---------------------------------- */

/* layer_input[t,d] = sum_i h_pre[t,i] x[t,i,d] */
typedef struct mhc_apply_pre_args {
  size_t size;
  const mhc_spec* spec;
  mhc_tensor x;           /* [T, n, D] A */
  mhc_tensor h_pre;       /* [T, n] G */
  mhc_tensor layer_input; /* out [T, D] A */
} mhc_apply_pre_args;
MHC_EXPORT mhc_status mhc_apply_pre(const mhc_apply_pre_args* args, const mhc_runtime* runtime);

/* d_x[t,i,d] = h_pre[t,i] d_layer_input[t,d];  d_h_pre[t,i] = sum_d x[t,i,d] d_layer_input[t,d] */
typedef struct mhc_apply_pre_backward_args {
  size_t size;
  const mhc_spec* spec;
  mhc_tensor d_layer_input; /* [T, D] A */
  mhc_tensor x;             /* [T, n, D] A, for d_h_pre */
  mhc_tensor h_pre;         /* [T, n] G, for d_x */
  mhc_tensor d_x;           /* out [T, n, D] A, optional; may be x */
  mhc_tensor d_h_pre;       /* out [T, n] G, optional */
} mhc_apply_pre_backward_args;
MHC_EXPORT mhc_status mhc_apply_pre_backward(const mhc_apply_pre_backward_args* args,
                                             const mhc_runtime* runtime);

/* mhc_post and the eager mhc_post_backward under the names of the halves. */
typedef mhc_post_args mhc_apply_post_args;
typedef mhc_post_backward_args mhc_apply_post_backward_args;
MHC_EXPORT mhc_status mhc_apply_post(const mhc_apply_post_args* args, const mhc_runtime* runtime);
MHC_EXPORT mhc_status mhc_apply_post_backward(const mhc_apply_post_backward_args* args,
                                              const mhc_runtime* runtime);

/* ---- Around the stack ------------------------------------------------------------------------ */

/* out[t,d] = sum_i h_pre[t,i] x[t,i,d] with h_pre = sigmoid(alpha z + bias) + pre_eps: the learned
 * reduction. phi is [n, n, D], alpha [1], bias [n]; z and inv_rms as in mhc_pre with m = n. */
typedef struct mhc_head_args {
  size_t size;
  const mhc_spec* spec;
  mhc_tensor x; /* [T, n, D] A */
  mhc_params params;
  mhc_packed_phi packed_phi; /* optional */
  mhc_tensor out;            /* out [T, D] A, optional like each of the following */
  mhc_tensor z;              /* out [T, n] G, kept for backward */
  mhc_tensor inv_rms;        /* out [T] G, kept for backward */
  mhc_tensor h_pre;          /* out [T, n] G */
  mhc_workspace workspace;
} mhc_head_args;
MHC_EXPORT mhc_status mhc_head(const mhc_head_args* args, const mhc_runtime* runtime);

typedef struct mhc_head_backward_args {
  size_t size;
  const mhc_spec* spec;
  mhc_tensor x; /* [T, n, D] A */
  mhc_params params;
  mhc_tensor z;       /* [T, n] G, from forward */
  mhc_tensor inv_rms; /* [T] G, from forward */
  mhc_tensor d_out;   /* [T, D] A */
  mhc_tensor d_x;     /* out [T, n, D] A, optional */
  mhc_param_gradients gradients;
  int32_t accumulate;
  mhc_workspace workspace;
} mhc_head_backward_args;
MHC_EXPORT mhc_status mhc_head_backward(const mhc_head_backward_args* args,
                                        const mhc_runtime* runtime);

/* x[t,i,d] = h[t,d];  backward d_h[t,d] = sum_i d_x[t,i,d] */
typedef struct mhc_expand_args {
  size_t size;
  int64_t streams; /* n, 1 to 16 */
  mhc_tensor h;    /* [T, D] A */
  mhc_tensor x;    /* out [T, n, D] A */
} mhc_expand_args;
MHC_EXPORT mhc_status mhc_expand(const mhc_expand_args* args, const mhc_runtime* runtime);

typedef struct mhc_expand_backward_args {
  size_t size;
  mhc_tensor d_x; /* [T, n, D] A */
  mhc_tensor d_h; /* out [T, D] A */
} mhc_expand_backward_args;
MHC_EXPORT mhc_status mhc_expand_backward(const mhc_expand_backward_args* args,
                                          const mhc_runtime* runtime);

/* out[t,d] = s sum_i x[t,i,d], s = 1 (sum) or 1/n (mean);  backward d_x[t,i,d] = s d_out[t,d] */
enum { MHC_SUM = 0, MHC_MEAN = 1 };
typedef struct mhc_reduce_args {
  size_t size;
  int32_t mode;
  mhc_tensor x;   /* [T, n, D] A */
  mhc_tensor out; /* out [T, D] A */
} mhc_reduce_args;
MHC_EXPORT mhc_status mhc_reduce(const mhc_reduce_args* args, const mhc_runtime* runtime);

typedef struct mhc_reduce_backward_args {
  size_t size;
  int32_t mode;
  int64_t streams;  /* n, 1 to 16 */
  mhc_tensor d_out; /* [T, D] A */
  mhc_tensor d_x;   /* out [T, n, D] A */
} mhc_reduce_backward_args;
MHC_EXPORT mhc_status mhc_reduce_backward(const mhc_reduce_backward_args* args,
                                          const mhc_runtime* runtime);

/* ---- Workspace and packed phi ---------------------------------------------------------------- */

typedef int32_t mhc_operation;
enum {
  MHC_OP_PRE = 0,
  MHC_OP_PRE_BACKWARD = 1,
  MHC_OP_COEFFICIENTS = 2,
  MHC_OP_COEFFICIENTS_BACKWARD = 3,
  MHC_OP_PROJECT_PARTIAL = 4,
  MHC_OP_PROJECT_PARTIAL_BACKWARD = 5,
  MHC_OP_COEFFICIENTS_FROM_PARTIALS = 6,
  MHC_OP_COEFFICIENTS_FROM_PARTIALS_BACKWARD = 7,
  MHC_OP_HEAD = 8,
  MHC_OP_HEAD_BACKWARD = 9
  /* The other operations need none. */
};

/* The sizes that decide it. */
typedef struct mhc_problem {
  size_t size;
  const mhc_spec* spec;
  mhc_kind kind;        /* of the partial operations; the others imply theirs */
  int64_t tokens;       /* T */
  int64_t embedding;    /* D, of this shard */
  mhc_dtype activation; /* A; for the operations on partials the type of q */
} mhc_problem;

/* A pure function of its arguments, bounded whatever T is. It says what this number of tokens needs
 * on this runtime; fewer tokens may need more, so a workspace for several sizes is the largest of
 * their answers. */
MHC_EXPORT mhc_status mhc_workspace_bytes(mhc_operation operation, const mhc_problem* problem,
                                          const mhc_runtime* runtime, size_t* bytes);

/* Packed phi fits the kernel that the same runtime chooses for the same spec, kind, D and A; tokens
 * is not read. 0 for f64, which uses none. */
MHC_EXPORT mhc_status mhc_packed_phi_bytes(const mhc_problem* problem, const mhc_runtime* runtime,
                                           size_t* bytes);

typedef struct mhc_pack_phi_args {
  size_t size;
  mhc_problem problem;    /* tokens is not read */
  mhc_tensor phi;         /* [m, n, D] P */
  mhc_tensor norm_weight; /* [n, D] P, optional */
  void* packed;           /* out, at least mhc_packed_phi_bytes() */
  size_t packed_bytes;
} mhc_pack_phi_args;
MHC_EXPORT mhc_status mhc_pack_phi(const mhc_pack_phi_args* args, const mhc_runtime* runtime);

#ifdef __cplusplus
}
#endif

#endif /* MHC_OPERATIONS_H_ */
