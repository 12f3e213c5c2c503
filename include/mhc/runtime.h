/* What calls run on: threads, instruction sets, tuning; and what there is to know about both. */
#ifndef MHC_RUNTIME_H_
#define MHC_RUNTIME_H_

#include <mhc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Runtime --------------------------------------------------------------------------------- */

/* Passed to every operation; NULL is the default one, made from the environment at its first use:
 *   MHC_ISA          ceiling: scalar, avx2, avx512 or avx512bf16
 *   MHC_NUM_THREADS  threads of the library's pool, the caller included
 *   MHC_TUNING       file of the tuning table
 * A value that means nothing makes every call with the default runtime fail and say what it may be.
 * A runtime may be used from several threads at once: one call has the helper threads, others
 * meanwhile run on their caller alone. Results are the same bits for any number of threads,
 * executor and tuning table. After a fork the child's first call starts helpers of its own. */
typedef struct mhc_runtime mhc_runtime;

/* Somebody else's threads. run() calls task(task_context, i, worker) once for each i in [0, tasks),
 * in any order, on any threads, and returns when all are done; worker is in [0, workers()) and no
 * two tasks run with the same one at the same time. A caller that is itself one of the pool's
 * threads must take part in the work. Tasks do not throw and leave the thread's floating-point mode
 * as it was. */
typedef void (*mhc_task)(void* task_context, int64_t index, int32_t worker);
typedef struct mhc_executor {
  void* context;
  int32_t (*workers)(void* context); /* at least 1, the same number throughout the runtime's life */
  void (*run)(void* context, int64_t tasks, mhc_task task, void* task_context);
} mhc_executor;

typedef struct mhc_runtime_options {
  size_t size;        /* sizeof(mhc_runtime_options); all else may be zero */
  const char* isa;    /* ceiling by name; NULL: the best that the processor has */
  const char* tuning; /* file that `mhc tune` wrote; NULL: built-in choices */
  int32_t
      num_threads; /* own pool: its threads, caller included, 0: one per core that the process may
                      use; with an executor: the most of its workers to use, 0: all. At most 1024 */
  int32_t
      pin; /* 1: each helper of the own pool stays on a core of its own. The caller is left alone */
  mhc_executor executor; /* run == NULL: the library's own pool */
} mhc_runtime_options;

/* The caller destroys it when no call that uses it is running. */
MHC_EXPORT mhc_status mhc_runtime_create(const mhc_runtime_options* options, mhc_runtime** runtime);
MHC_EXPORT void mhc_runtime_destroy(mhc_runtime* runtime); /* NULL is ignored */

/* Fills isa, tuning and num_threads as the default runtime has them, for a runtime with an executor
 * of its own that should heed the environment. The strings live as long as the environment's. */
MHC_EXPORT mhc_status mhc_runtime_options_from_environment(mhc_runtime_options* options);

/* The number of workers, and the best instruction set that its ceiling and this processor allow. */
MHC_EXPORT mhc_status mhc_runtime_workers(const mhc_runtime* runtime, int32_t* workers);
typedef int32_t mhc_isa;
enum { MHC_ISA_SCALAR = 0, MHC_ISA_AVX2 = 1, MHC_ISA_AVX512 = 2, MHC_ISA_AVX512BF16 = 3 };
MHC_EXPORT mhc_status mhc_runtime_isa(const mhc_runtime* runtime, mhc_isa* isa);

/* ---- What is there --------------------------------------------------------------------------- */

MHC_EXPORT const char* mhc_version(
    void); /* of the library that runs, as MHC_VERSION_STRING is of this header */

/* Name and meaning of an instruction set, NULL past the last; whether this processor has it. */
MHC_EXPORT const char* mhc_isa_name(mhc_isa isa);
MHC_EXPORT const char* mhc_isa_description(mhc_isa isa);
MHC_EXPORT int32_t mhc_isa_available(mhc_isa isa);

/* One row of the kernel tables, best first within an operation and type. */
typedef struct mhc_kernel_info {
  const char* operation; /* pre, post, ...; several public operations may share a kernel */
  const char* name;
  mhc_isa isa;
  mhc_dtype dtype;   /* of the activations */
  int32_t available; /* on this processor */
} mhc_kernel_info;
MHC_EXPORT int32_t mhc_kernel_count(void);
MHC_EXPORT mhc_kernel_info mhc_kernel_at(int32_t index); /* all zero past the end */

/* Calls per kernel name since the program began or since the last reset, over all threads and
 * runtimes: the proof of what ran. A name is <operation>_<isa>_<dtype> as in mhc_kernel_at(); f64,
 * which has no kernel, is counted as <operation>_reference_f64. counted_kernel: the index-th name
 * that was ever called, NULL past the end. */
MHC_EXPORT int64_t mhc_calls_of(const char* kernel);
MHC_EXPORT const char* mhc_counted_kernel(int32_t index);
MHC_EXPORT void mhc_reset_calls(void);

#ifdef __cplusplus
}
#endif

#endif /* MHC_RUNTIME_H_ */
