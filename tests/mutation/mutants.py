"""One-line faults, each of which some test has to notice.

White space is compared loosely. In the replacement MUTANT is true while this fault is switched on, so that one build holds all
of them. Faults of manifolds are in the definition as well, so that no comparison with it sees them: their tests know values,
derivatives or extended precision. Those of the dot path show on a processor with AVX-512 BF16 alone.
"""
from typing import NamedTuple


class Mutant(NamedTuple):
    name: str
    file: str  # below src/
    before: str  # what stands there
    after: str  # what stands there instead
    tests: str  # GoogleTest filter
    executable: str = "kernels_test"


STREAMING = "*PostCases*:*PostBackwardCases*:*CollapseCases*:*SpreadCases*"
PRE = "*PreCases*"
BACKWARD = "*PreBackwardCases*"
GATES = "*CoefficientsCases*:*PreCases*:*PreBackwardCases*"

KERNEL_MUTANTS = [
    ("h_res transposed in d_x of post", "kernels/post_backward/post_backward-inl.h",
     "to_x.weight[j * n + i] = h_res[i * n + j];",
     "to_x.weight[j * n + i] = MUTANT ? h_res[j * n + i] : h_res[i * n + j];", "*PostBackwardCases*"),
    ("precision of h_post ignored", "kernels/post/post-inl.h",
     "load_weights<T>(args.h_post.at<float>(t), n, args.spec.h_post_precision, weight + n * n);",
     "load_weights<T>(args.h_post.at<float>(t), n, MUTANT ? GatePrecision::kFloat32 : args.spec.h_post_precision, weight + n * n);",
     "*PostCases*"),
    ("tail of a mix dropped", "kernels/common/mix-inl.h",
     "mix_part(rows, d, end - d);", "if (!MUTANT) mix_part(rows, d, end - d);", STREAMING),
    ("a stream left out of a mix", "kernels/common/mix-inl.h",
     "for (int64_t i = 1; i < kIn; ++i) add_input", "for (int64_t i = MUTANT ? 2 : 1; i < kIn; ++i) add_input", STREAMING),
    ("scale of reduce lost", "kernels/common/mix-inl.h",
     "to[k] *= scale;", "to[k] *= MUTANT ? 1.0f : scale;", STREAMING),
    ("only the last block of a product", "kernels/common/products-inl.h",
     "total = total + sum[a][b];", "total = MUTANT ? sum[a][b] : total + sum[a][b];", STREAMING),
    ("tail of a product dropped", "kernels/common/products-inl.h",
     "for (; d < end; d += kFeatures) {", "for (; d + (MUTANT ? kFeatures : 1) <= end; d += kFeatures) {", STREAMING),
    ("the first token's x for all tokens", "kernels/post_backward/post_backward-inl.h",
     "products.left[row] = visit(x.at<T>(t, row), last ? 0 : x.stride[0]);",
     "products.left[row] = visit(x.at<T>(MUTANT ? 0 : t, row), last ? 0 : x.stride[0]);", "*PostBackwardCases*"),
    ("norm eps missing", "kernels/common/gates-inl.h",
     "one / sqrt_of(mean + eps);", "one / sqrt_of(MUTANT ? mean : mean + eps);", GATES),
    ("post_mult lost", "kernels/common/gates-inl.h",
     "gate[j] = mult * Sigmoid", "gate[j] = (MUTANT ? one : mult) * Sigmoid", GATES),
    ("post_mult lost backward", "kernels/common/gates-inl.h",
     "(splat(p.post_mult) * Sigmoid", "(splat(MUTANT ? 1.0f : p.post_mult) * Sigmoid", GATES),
    ("textbook derivative of the sigmoid", "kernels/common/gates-inl.h",
     "derivative = e * scale * scale;", "derivative = MUTANT ? value * (one - value) : e * scale * scale;", GATES),
    ("matrix_order ignored backward", "kernels/common/gates-inl.h",
     "if (p.transposed) transpose_square(n, d_h);", "if (p.transposed && !MUTANT) transpose_square(n, d_h);", GATES),
    ("norm term without inv_rms", "kernels/common/gates-inl.h",
     "const VF norm = sum * factor * splat(p.inv_k);",
     "const VF norm = (MUTANT ? sum : sum * factor) * splat(p.inv_k);", GATES),
    ("d_alpha into the wrong group", "kernels/common/gates-inl.h",
     "by_group[g] = fma(d[c], z[c], by_group[g]);",
     "by_group[MUTANT ? 0 : g] = fma(d[c], z[c], by_group[MUTANT ? 0 : g]);", GATES),
    ("pre_eps missing backward", "kernels/common/gates-inl.h",
     "logits[i] = s.value + splat(p.pre_eps);", "logits[i] = MUTANT ? s.value : s.value + splat(p.pre_eps);", BACKWARD),
    ("z of the wrong coefficient", "kernels/common/gates-inl.h",
     "logits[l] = logit_of(p, 2 * n + l, z[2 * n + l]);", "logits[l] = logit_of(p, 2 * n + l, z[(MUTANT ? 0 : 2 * n) + l]);", GATES),
    ("tail of the sum of squares dropped", "kernels/common/stage-inl.h",
     "store(buffer + k, v, left); a = fma(v, v, a);", "store(buffer + k, v, left); if (!MUTANT) a = fma(v, v, a);", PRE),
    ("only the last block of a projection", "kernels/common/project-inl.h",
     "store(columns, load(columns, kColumns) + add_adjacent(sum[r][v]), kColumns);",
     "store(columns, (MUTANT ? zero() : load(columns, kColumns)) + add_adjacent(sum[r][v]), kColumns);", PRE),
    ("rounding of folded phi forgotten", "kernels/common/phi-inl.h",
     "if (round) v = round_bf16(v);", "if (round && !MUTANT) v = round_bf16(v);", PRE + ":" + BACKWARD),
    ("norm_weight not folded", "kernels/common/phi-inl.h",
     "if (weight != nullptr) v = v", "if (weight != nullptr && !MUTANT) v = v", PRE + ":" + BACKWARD),
    ("h_pre_precision ignored in the collapse", "kernels/pre/pre-inl.h",
     "if (args.spec.h_pre_precision == GatePrecision::kActivation)",
     "if (args.spec.h_pre_precision == GatePrecision::kActivation && !MUTANT)", PRE),
    ("stale accumulators of d_phi", "kernels/pre_backward/pre_backward_d_phi-inl.h",
     "store(row, first ? sum[j][0] : load(row) + sum[j][0]);",
     "store(row, first && !MUTANT ? sum[j][0] : load(row) + sum[j][0]);", BACKWARD),
    ("sign of the norm term", "kernels/pre_backward/pre_backward_d_x-inl.h",
     "const VF minus_norm = splat(-*at.norm);", "const VF minus_norm = splat(MUTANT ? *at.norm : -*at.norm);", BACKWARD),
    ("h_res transposed in d_x of pre", "kernels/pre_backward/pre_backward_d_x-inl.h",
     "broadcast(at.h_res + i * n + j);", "broadcast(at.h_res + (MUTANT ? j * n + i : i * n + j));", BACKWARD),
    ("a coefficient left out of d_x", "kernels/pre_backward/pre_backward_d_x-inl.h",
     "for (int64_t c = 0; c < m; ++c, phi += kPanel) {",
     "for (int64_t c = 0; c < (MUTANT ? m - 1 : m); ++c, phi += kPanel) {", BACKWARD),
    ("groups of token blocks forgotten", "kernels/pre_backward/pre_backward_reduce-inl.h",
     "for (int64_t group = 0; group < plan.groups; ++group) {",
     "for (int64_t group = 0; group < (MUTANT ? 1 : plan.groups); ++group) {", BACKWARD),
    ("d_phi without norm_weight", "kernels/pre_backward/pre_backward_reduce-inl.h",
     "sum[k] *= weight[k];", "sum[k] *= MUTANT ? 1.0f : weight[k];", BACKWARD),
    ("only the last wave of d_bias", "kernels/pre_backward/pre_backward.cc",
     "totals[c] += static_cast<double>(plan.sums[row * width + c]);",
     "totals[c] = (MUTANT ? 0 : totals[c]) + static_cast<double>(plan.sums[row * width + c]);", BACKWARD),
]

DOT_MUTANTS = [
    ("low parts of phi dropped in d_x", "kernels/pre_backward/pre_backward_dot-inl.h",
     "narrow_pairs(even - round_bf16(even), odd - round_bf16(odd));",
     "narrow_pairs(MUTANT ? zero() : even - round_bf16(even), MUTANT ? zero() : odd - round_bf16(odd));", BACKWARD),
    ("last odd coefficient of phi dropped", "kernels/pre_backward/pre_backward_dot-inl.h",
     "const VF odd = 2 * p + 1 < m ?", "const VF odd = 2 * p + 1 < (MUTANT ? m - 1 : m) ?", BACKWARD),
    ("one part of phi only", "kernels/pre_backward/pre_backward_dot-inl.h",
     "for (int64_t part = 0; part < parts; ++part) {", "for (int64_t part = 0; part < (MUTANT ? 1 : parts); ++part) {", BACKWARD),
    ("second token of the pairs dropped", "kernels/pre_backward/pre_backward_dot-inl.h",
     "const VF odd = t + 1 < tokens ?", "const VF odd = t + 1 < tokens && !MUTANT ?", BACKWARD),
    ("stale accumulators of d_phi in pairs", "kernels/pre_backward/pre_backward_dot-inl.h",
     "store(row, first ? sum[j][0] : load(row) + sum[j][0]);",
     "store(row, first && !MUTANT ? sum[j][0] : load(row) + sum[j][0]);", BACKWARD),
    ("pairs of coefficients swapped", "kernels/pre_backward/pre_backward_gates-inl.h",
     "pairs[c / 2] = bf16_pair(d_q[c], c + 1 < m ? d_q[c + 1] : 0.0f);",
     "pairs[c / 2] = MUTANT && c + 1 < m ? bf16_pair(d_q[c + 1], d_q[c]) : bf16_pair(d_q[c], c + 1 < m ? d_q[c + 1] : 0.0f);",
     BACKWARD),
]

PACK_MUTANTS = [
    ("low parts of packed phi dropped", "kernels/common/pack-inl.h",
     "part == 0 ? v : v - round_bf16(v));", "part == 0 ? v : MUTANT ? zero() : v - round_bf16(v));", PRE),
    ("what stood behind the features packed", "kernels/common/pack-inl.h",
     "for (int64_t k = count; k < kPackChunk; ++k) row[k] = 0.0f;",
     "for (int64_t k = count; k < kPackChunk && !MUTANT; ++k) row[k] = 0.0f;", PRE),
    ("neighbouring columns of packed phi swapped", "kernels/common/pack-inl.h",
     "out += vector * layout.lanes + c % layout.per_vector * kUnits;",
     "out += vector * layout.lanes + (MUTANT ? c ^ 1 : c) % layout.per_vector * kUnits;", PRE),
    ("second unit of a step repeats the first", "kernels/common/pack-inl.h",
     "out[u] = words[kUnits * s + u];", "out[u] = words[kUnits * s + (MUTANT ? 0 : u)];", PRE),
    ("phi read as [n, m, D]", "kernels/common/pack-inl.h",
     "load_row(params.phi, (c * streams + i) * embedding + d, count, row);",
     "load_row(params.phi, (MUTANT ? i * layout.columns + c : c * streams + i) * embedding + d, count, row);", PRE),
    ("norm_weight of the first stream for all", "kernels/common/pack-inl.h",
     "load_row(params.norm_weight, i * embedding + d, count, weight);",
     "load_row(params.norm_weight, (MUTANT ? 0 : i) * embedding + d, count, weight);", PRE),
]

COEFFICIENT_MUTANTS = [
    ("sign of d_sum_squares", "kernels/coefficients/coefficients-inl.h",
     "= -0.5f * norm[r];", "= (MUTANT ? 0.5f : -0.5f) * norm[r];", GATES),
    ("q of the task's first tokens for all", "kernels/coefficients/coefficients-inl.h",
     "gates_forward(gates, count, args.q.at_or_null<float>(t),",
     "gates_forward(gates, count, args.q.at_or_null<float>(MUTANT ? begin : t),", "*Coefficients*"),
    ("only the last sums of d_bias in coefficients", "kernels/coefficients/coefficients.cc",
     "space.totals[c] += static_cast<double>(space.sums[row * width + c]);",
     "space.totals[c] = (MUTANT ? 0 : space.totals[c]) + static_cast<double>(space.sums[row * width + c]);", GATES),
    ("mean over D instead of n D", "kernels/common/gates.cc",
     "static_cast<double>(spec.streams * embedding_total)", "static_cast<double>((MUTANT ? 1 : spec.streams) * embedding_total)",
     GATES),
    ("K of one of two shards in the coefficients", "kernels/coefficients/coefficients.cc",
     """args.workspace, space.bytes)); const GateParams gates = make_gate_params(args.spec, args.kind, args.embedding_total, args.alpha,
     args.bias, space.gate_params); runtime.executor.run(""",
     """args.workspace, space.bytes)); const GateParams gates = make_gate_params(args.spec, args.kind, MUTANT ?
     (args.embedding_total + 1) / 2 : args.embedding_total, args.alpha, args.bias, space.gate_params); runtime.executor.run(""",
     GATES),
    ("K of one of two shards in their backward", "kernels/coefficients/coefficients.cc",
     """const GateParams gates = make_gate_params(args.spec, args.kind, args.embedding_total, args.alpha, args.bias,
     space.gate_params); const int64_t width""",
     """const GateParams gates = make_gate_params(args.spec, args.kind, MUTANT ? (args.embedding_total + 1) / 2 :
     args.embedding_total, args.alpha, args.bias, space.gate_params); const int64_t width""", GATES),
    ("squares of all blocks but the first dropped for few tokens", "kernels/pre/pre-inl.h",
     "s.sum_squares[k] += totals[tokens * padded + t + k];",
     "s.sum_squares[k] += MUTANT && b > 0 ? 0.0f : totals[tokens * padded + t + k];", "*Bitwise*Thread*", "kernels_bitwise_test"),
    ("lanes without a token summed", "kernels/common/gates-inl.h",
     "clear_lanes(d, m, count);", "if (!MUTANT) clear_lanes(d, m, count);", "*LanesWithoutAToken*", "kernels_faults_gates_test"),
    ("rms of a flushed mean square", "kernels/common/gates-inl.h",
     "factor = select_greater(mean, zero(),", "factor = select_greater(MUTANT ? ss : mean, zero(),", "*MeanSquareThatIsFlushed*",
     "kernels_faults_numbers_test"),
]

SINKHORN = "*Sinkhorn*:*sinkhorn*"
PERMUTATION = "*Permutation*:*permutation*"
MANIFOLD_MUTANTS = [
    ("sinkhorn: no eps beside a sum", "manifold/sinkhorn.h",
     "const V d = sum + constant(sum, eps);", "const V d = MUTANT ? sum : sum + constant(sum, eps);", SINKHORN, "manifold_test"),
    ("sinkhorn: no eps beside the softmax", "manifold/sinkhorn.h",
     "c[k] = c[k] + eps;", "c[k] = MUTANT ? c[k] : c[k] + eps;", SINKHORN, "manifold_test"),
    ("sinkhorn: rows before columns", "manifold/sinkhorn.h",
     "if (step % 2 == 0) { for (int64_t j = 0; j < n; ++j) normalise(",
     "if ((step % 2 == 0) != MUTANT) { for (int64_t j = 0; j < n; ++j) normalise(", SINKHORN, "manifold_test"),
    ("sinkhorn: an iteration too few", "manifold/sinkhorn.h",
     "step < 2 * o.iterations - 1; ++step)", "step < 2 * o.iterations - (MUTANT ? 3 : 1); ++step)", SINKHORN, "manifold_test"),
    ("sinkhorn: softmax of columns", "manifold/sinkhorn.h",
     "for (int64_t j = 0; j < n; ++j) c[i * n + j] = c[i * n + j] * scale;",
     "for (int64_t j = 0; j < n; ++j) c[i * n + j] = MUTANT ? c[i * n + j] : c[i * n + j] * scale;", SINKHORN, "manifold_test"),
    ("sinkhorn: exp without the largest logit", "manifold/sinkhorn.h",
     "exp_of(logits[i * n + j] - largest);", "exp_of(MUTANT ? logits[i * n + j] : logits[i * n + j] - largest);",
     "*HugeLogits*", "kernels_faults_gates_test"),
    ("sinkhorn: textbook backward of a step", "manifold/sinkhorn.h",
     "V rest = step.r * constant(d, eps) * scale;",
     "if (MUTANT) step.r = constant(d, 0.0); V rest = step.r * constant(d, eps) * scale;", "*NearlyEqual*", "kernels_peaked_test"),
    ("sinkhorn: textbook backward of the softmax", "manifold/sinkhorn.h",
     "V mean = constant(w[0], 0.0);", "if (MUTANT) step.r = constant(w[0], 0.0); V mean = constant(w[0], 0.0);", "*Sinkhorn*",
     "kernels_peaked_test"),
    ("sinkhorn: eps left out backward", "manifold/sinkhorn.h",
     "step.r * constant(d, eps) * scale;", "step.r * constant(d, MUTANT ? 0.0 : eps) * scale;", SINKHORN, "manifold_test"),
    ("sinkhorn: backward stays at the last state", "manifold/sinkhorn.h",
     "c[k * stride] = c[k * stride] * d;", "if (!MUTANT) c[k * stride] = c[k * stride] * d;", SINKHORN, "manifold_test"),
    ("permutation: inverse permutations", "manifold/permutation.h",
     "V& entry = h_res[i * kN + Table<kN>::kValue.image[p][i]];",
     "V& entry = h_res[MUTANT ? Table<kN>::kValue.image[p][i] * kN + i : i * kN + Table<kN>::kValue.image[p][i]];", PERMUTATION,
     "manifold_test"),
    ("permutation: a row left out backward", "manifold/permutation.h",
     "for (int64_t i = 1; i < kN; ++i) sum = sum + d_h_res", "for (int64_t i = MUTANT ? 2 : 1; i < kN; ++i) sum = sum + d_h_res",
     PERMUTATION, "manifold_test"),
    ("permutation: textbook backward of the softmax", "manifold/permutation.h",
     "V mean = constant(w[0], 0.0);", "if (MUTANT) step.r = constant(w[0], 0.0); V mean = constant(w[0], 0.0);",
     "*Permutation*", "kernels_peaked_test"),
    ("permutation: exp without the largest logit", "manifold/permutation.h",
     "exp_of(logits[p] - largest);", "exp_of(MUTANT ? logits[p] : logits[p] - largest);", "*HugeLogits*",
     "kernels_faults_gates_test"),
    ("stable steps around the first entry", "manifold/manifold.h",
     "r = select_greater(y, largest, g, r);", "r = MUTANT ? r : select_greater(y, largest, g, r);", "*Sinkhorn*",
     "kernels_peaked_test"),
    ("identity: ones beside the diagonal", "manifold/identity.h",
     "k % (n + 1) == 0 ? 1.0 : 0.0", "k % (n + 1) == (MUTANT && n > 1 ? 1 : 0) ? 1.0 : 0.0", "*Identity*:*identity*", "manifold_test"),
    ("unconstrained: transposed", "manifold/unconstrained.h",
     "h_res[k] = logits[k];", "h_res[k] = logits[MUTANT ? k % n * n + k / n : k];", "*Unconstrained*:*unconstrained*", "manifold_test"),
]

CALL_MUTANTS = [
    ("precision of packed phi not kept", "kernels/pre/pre.cc",
     "static_cast<int64_t>(spec.phi_precision), layout.columns,",
     "MUTANT ? 0 : static_cast<int64_t>(spec.phi_precision), layout.columns,", "*PackedForAnotherPrecision*",
     "kernels_faults_conventions_test"),
    ("gradients left alone without tokens", "kernels/common/gates.cc",
     "if (!gradient.present() || accumulate) return;", "if (!gradient.present() || accumulate || MUTANT) return;",
     "*WithoutTokens*", "kernels_allocations_test"),
    ("accumulated gradients cleared without tokens", "kernels/common/gates.cc",
     "gradient.present() || accumulate", "gradient.present() || (accumulate && !MUTANT)", "*WithoutTokens*",
     "kernels_allocations_test"),
    ("threads keep their floating-point mode in tasks", "base/fpenv.h",
     "_mm_setcsr(kFlushMaskedNearest);", "if (!MUTANT) _mm_setcsr(kFlushMaskedNearest);", "*Modes*", "kernels_modes_test"),
    ("floating-point mode not restored", "base/fpenv.h",
     "~FloatingPointPolicy() { _mm_setcsr(saved_); }", "~FloatingPointPolicy() { if (!MUTANT) _mm_setcsr(saved_); }", "*Modes*",
     "kernels_modes_test"),
]

CALL_MUTANTS += [
    (f"the caller's own mode in what {operation} does outside of tasks", f"kernels/{operation}/{operation}.cc",
     "const FloatingPointPolicy policy;",
     "const uint32_t own = _mm_getcsr(); const FloatingPointPolicy policy; if (MUTANT) _mm_setcsr(own);", "*Modes*",
     "kernels_modes_test") for operation in ("pre", "pre_backward")
]

MUTANTS = [Mutant(*m) for m in KERNEL_MUTANTS + DOT_MUTANTS + PACK_MUTANTS + COEFFICIENT_MUTANTS + MANIFOLD_MUTANTS + CALL_MUTANTS]
