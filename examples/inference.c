/* Inference of a stack of sites, in C: expand, then per site pre, branch and post in place, then
 * the head.
 *
 *   cmake --build BUILD --target example_inference && BUILD/bin/example_inference
 *
 * Activations are bf16, parameters f32. Phi is packed once per site, as an engine would when it
 * loads a model. The branch stands for attention or an MLP: it passes its input on. */

#include <math.h>
#include <mhc/mhc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kTokens = 24, kStreams = 4, kEmbedding = 192, kSites = 6 };

/* Parameters of one site or head, with its phi packed. */
typedef struct {
  float* memory;
  mhc_params params;
  mhc_packed_phi packed;
  void* packed_memory;
} Weights;

static int failed(mhc_status status) {
  if (status == MHC_OK) return 0;
  fprintf(stderr, "%s\n", mhc_last_error());
  return 1;
}

static float next_random(uint32_t* state) { /* uniform in (-1, 1) */
  *state = *state * 1664525u + 1013904223u;
  return (float)(int32_t)*state / 2147483648.0f;
}

static uint16_t to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

static float from_bf16(uint16_t half) {
  const uint32_t bits = (uint32_t)half << 16;
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

static mhc_problem make_problem(const mhc_spec* spec, mhc_kind kind) {
  mhc_problem problem;
  memset(&problem, 0, sizeof(problem));
  problem.size = sizeof(problem);
  problem.spec = spec;
  problem.kind = kind;
  problem.tokens = kTokens;
  problem.embedding = kEmbedding;
  problem.activation = MHC_BF16;
  return problem;
}

/* Random weights in place of a checkpoint's. */
static int load_weights(Weights* w, const mhc_spec* spec, mhc_kind kind, uint32_t seed) {
  const int64_t groups = kind == MHC_HEAD ? 1 : 3;
  int64_t m = 0;
  if (failed(mhc_spec_coefficients(spec, kind, &m))) return 1;
  const int64_t phi = m * kStreams * kEmbedding;
  w->memory = malloc((size_t)(phi + groups + m) * sizeof(float));
  if (w->memory == NULL) return 1;
  for (int64_t i = 0; i < phi + groups + m; ++i) {
    w->memory[i] = next_random(&seed) * (i < phi ? 0.05f : 1.0f);
  }
  memset(&w->params, 0, sizeof(w->params));
  w->params.phi = mhc_tensor_3d(w->memory, MHC_F32, m, kStreams, kEmbedding);
  w->params.alpha = mhc_tensor_1d(w->memory + phi, MHC_F32, groups);
  w->params.bias = mhc_tensor_1d(w->memory + phi + groups, MHC_F32, m);

  mhc_pack_phi_args pack;
  memset(&pack, 0, sizeof(pack));
  pack.size = sizeof(pack);
  pack.problem = make_problem(spec, kind);
  pack.phi = w->params.phi;
  if (failed(mhc_packed_phi_bytes(&pack.problem, NULL, &pack.packed_bytes))) return 1;
  pack.packed = w->packed_memory = malloc(pack.packed_bytes);
  if (pack.packed == NULL || failed(mhc_pack_phi(&pack, NULL))) return 1;
  w->packed.data = pack.packed;
  w->packed.bytes = pack.packed_bytes;
  return 0;
}

static void free_weights(Weights* w) {
  free(w->memory);
  free(w->packed_memory);
}

/* In place of attention or an MLP: v / (1 + |v|) for each feature. */
static void run_branch(mhc_tensor hidden) {
  uint16_t* v = hidden.data;
  for (int i = 0; i < kTokens * kEmbedding; ++i) {
    const float value = from_bf16(v[i]);
    v[i] = to_bf16(value / (1.0f + fabsf(value)));
  }
}

/* x becomes what the site makes of it. */
static int run_site(const mhc_spec* spec, const Weights* w, mhc_tensor x, mhc_tensor hidden,
                    float* gates, mhc_workspace workspace) {
  const mhc_tensor h_post = mhc_tensor_2d(gates, MHC_F32, kTokens, kStreams);
  const mhc_tensor h_res =
      mhc_tensor_3d(gates + kTokens * kStreams, MHC_F32, kTokens, kStreams, kStreams);

  mhc_pre_args pre;
  memset(&pre, 0, sizeof(pre));
  pre.size = sizeof(pre);
  pre.spec = spec;
  pre.x = x;
  pre.params = w->params;
  pre.packed_phi = w->packed;
  pre.layer_input = hidden;
  pre.h_post = h_post;
  pre.h_res = h_res;
  pre.workspace = workspace;
  if (failed(mhc_pre(&pre, NULL))) return 1;

  run_branch(hidden);

  mhc_post_args post;
  memset(&post, 0, sizeof(post));
  post.size = sizeof(post);
  post.spec = spec;
  post.x = x;
  post.layer_output = hidden;
  post.h_post = h_post;
  post.h_res = h_res;
  post.x_next = x; /* in place: nothing reads x again */
  return failed(mhc_post(&post, NULL));
}

static int run_head(const mhc_spec* spec, const Weights* w, mhc_tensor x, mhc_tensor out,
                    mhc_workspace workspace) {
  mhc_head_args head;
  memset(&head, 0, sizeof(head));
  head.size = sizeof(head);
  head.spec = spec;
  head.x = x;
  head.params = w->params;
  head.packed_phi = w->packed;
  head.out = out;
  head.workspace = workspace;
  return failed(mhc_head(&head, NULL));
}

/* One workspace for all: the largest that any call asks for. */
static int make_workspace(const mhc_spec* spec, mhc_workspace* workspace) {
  const mhc_problem problem = make_problem(spec, MHC_SITE);
  size_t site = 0;
  size_t head = 0;
  if (failed(mhc_workspace_bytes(MHC_OP_PRE, &problem, NULL, &site)) ||
      failed(mhc_workspace_bytes(MHC_OP_HEAD, &problem, NULL, &head))) {
    return 1;
  }
  workspace->bytes = site > head ? site : head;
  workspace->data = malloc(workspace->bytes);
  return workspace->data == NULL;
}

static int run_stack(const mhc_spec* spec, const Weights* weights, uint16_t* hidden_data,
                     uint16_t* x_data, float* gates, mhc_workspace workspace) {
  const mhc_tensor hidden = mhc_tensor_2d(hidden_data, MHC_BF16, kTokens, kEmbedding);
  const mhc_tensor x = mhc_tensor_3d(x_data, MHC_BF16, kTokens, kStreams, kEmbedding);

  mhc_expand_args expand;
  memset(&expand, 0, sizeof(expand));
  expand.size = sizeof(expand);
  expand.streams = kStreams;
  expand.h = hidden;
  expand.x = x;
  if (failed(mhc_expand(&expand, NULL))) return 1;
  for (int site = 0; site < kSites; ++site) {
    if (run_site(spec, &weights[site], x, hidden, gates, workspace)) return 1;
  }
  return run_head(spec, &weights[kSites], x, hidden, workspace);
}

/* The columns of h_res sum to one and the branch's output is below one, so that no stream can leave
 * what was there by more than post_mult = 2 a site; the head weights four streams by at most one.
 */
static int report(const uint16_t* embedding, const uint16_t* out) {
  double before = 0;
  double after = 0;
  for (int i = 0; i < kTokens * kEmbedding; ++i) {
    before += fabs((double)from_bf16(embedding[i]));
    after += fabs((double)from_bf16(out[i]));
  }
  mhc_isa isa = 0;
  if (failed(mhc_runtime_isa(NULL, &isa))) return 1;
  printf("mhc %s on %s: %d tokens through %d sites of %d streams\n", mhc_version(),
         mhc_isa_name(isa), (int)kTokens, (int)kSites, (int)kStreams);
  printf("mean size of an activation: %.4f before, %.4f after\n", before / (kTokens * kEmbedding),
         after / (kTokens * kEmbedding));
  for (int32_t i = 0; mhc_counted_kernel(i) != NULL; ++i) {
    printf("%4lld calls of %s\n", (long long)mhc_calls_of(mhc_counted_kernel(i)),
           mhc_counted_kernel(i));
  }
  return !(after > 0 && after / (kTokens * kEmbedding) < kStreams * (1 + 2 * kSites) * 1.1);
}

int main(void) {
  mhc_spec spec;
  if (failed(mhc_spec_preset("hf_deepseek_v4", &spec))) return 1;

  Weights weights[kSites + 1];
  memset(weights, 0, sizeof(weights));
  mhc_workspace workspace = {NULL, 0};
  uint16_t* hidden = malloc(kTokens * kEmbedding * sizeof(*hidden));
  uint16_t* embedding = malloc(kTokens * kEmbedding * sizeof(*embedding));
  uint16_t* x = malloc(kTokens * kStreams * kEmbedding * sizeof(*x));
  float* gates = malloc(kTokens * kStreams * (kStreams + 1) * sizeof(*gates));
  int bad = hidden == NULL || embedding == NULL || x == NULL || gates == NULL ||
            make_workspace(&spec, &workspace);
  for (int i = 0; i <= kSites && !bad; ++i) {
    bad = load_weights(&weights[i], &spec, i == kSites ? MHC_HEAD : MHC_SITE, (uint32_t)i + 1);
  }
  if (!bad) {
    uint32_t seed = 99;
    for (int i = 0; i < kTokens * kEmbedding; ++i)
      hidden[i] = embedding[i] = to_bf16(next_random(&seed));
    bad = run_stack(&spec, weights, hidden, x, gates, workspace) || report(embedding, hidden);
  }

  for (int i = 0; i <= kSites; ++i) free_weights(&weights[i]);
  free(workspace.data);
  free(gates);
  free(x);
  free(embedding);
  free(hidden);
  return bad;
}
