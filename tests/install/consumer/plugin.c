/* What a plugin host does: opens the library, uses its threads, closes it, and again. */
#include <dlfcn.h>
#include <mhc/mhc.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { kTokens = 2048, kStreams = 4, kEmbedding = 256 };
static float h[kTokens * kEmbedding], x[kTokens * kStreams * kEmbedding];

typedef mhc_status (*expand_function)(const mhc_expand_args*, const mhc_runtime*);

static int use(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return fprintf(stderr, "%s\n", dlerror());
  expand_function expand;
  *(void**)&expand = dlsym(library, "mhc_expand");
  const mhc_tensor from = {h, MHC_F32, 2, {kTokens, kEmbedding}, {kEmbedding, 1}};
  const mhc_tensor to = {
      x, MHC_F32, 3, {kTokens, kStreams, kEmbedding}, {kStreams * kEmbedding, kEmbedding, 1}};
  const mhc_expand_args args = {sizeof(args), kStreams, from, to};
  const mhc_status status = expand(&args, NULL);
  dlclose(library);
  /* Time for the helpers to run into what is no longer there. */
  const struct timespec moment = {0, 50000000};
  nanosleep(&moment, NULL);
  return (int)status;
}

int main(int argc, char** argv) {
  return argc == 2 && use(argv[1]) == 0 && use(argv[1]) == 0 && memcmp(h, x, sizeof(h[0])) == 0 ? 0
                                                                                                : 1;
}
