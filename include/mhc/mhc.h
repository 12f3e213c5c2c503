/* mhc-kernels: hyper-connections whose mixing matrix stays on a manifold, forward and backward. The
 * stable C interface; <mhc/mhc.hpp> is its C++ face.
 *
 * A layer keeps n residual streams x [T, n, D] and learns per token how its branch reads from them
 * (h_pre), how the branch's output is written back (h_post) and how the streams mix (h_res):
 *
 *   x [T, n, D] --mhc_pre--> layer_input [T, D] --branch--> layer_output [T, D] --mhc_post-->
 * x_next [T, n, D]
 *
 * around a stack of such sites stand mhc_expand and mhc_reduce or mhc_head. Formulas: mHC, arXiv
 * 2512.24880; mHC-lite, arXiv 2601.05732; docs/conventions.md for the variants.
 *
 * Letters: t of T tokens (batch times sequence), i input stream, j output stream (n), d feature
 * (D), c coefficient (m = 2n + L in the order pre, post, res; L = mhc_spec_logits; m = n for a
 * head).
 *
 * Types: A is the activation type (bf16, f16, f32 or f64), the same for all activations of a call.
 * G is the type of gates and saved values: f32, or f64 when A is f64. P is a parameter's type: f32
 * or bf16 for each tensor by itself, or f64 for all when A is f64. Arithmetic is f32 (f64 when A
 * is), outputs are rounded once.
 *
 * Layouts: activations [T, n, D] and [T, D] have stride 1 along D and any strides >= 0 along the
 * others, 0 in inputs only. All other tensors are contiguous. h_res is [t, input, output].
 *
 * Memory: outputs and workspace belong to the caller, and the operations allocate nothing (f64
 * excepted). No output may share memory with another argument except where "may be" says so, and
 * then exactly: same address and strides. T = 0 is valid. Optional tensors are absent when
 * zero-initialised; an absent output is not computed and costs nothing. Everything is checked
 * before anything is written; messages name operation, argument, wanted and got. */
#ifndef MHC_MHC_H_
#define MHC_MHC_H_

#include <mhc/operations.h>
#include <mhc/runtime.h>
#include <mhc/types.h>
#include <mhc/version.h>

#endif /* MHC_MHC_H_ */
