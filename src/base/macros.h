#pragma once
// Forced inlining for everything that ISA files share with the rest: an out-of-line copy compiled
// with AVX-512 flags could become the program's only one and crash an older processor. Holds at -O0
// too.

#define MHC_INLINE [[gnu::always_inline]] inline

// Before a loop whose trip count is a constant: its accumulators then live in registers.
#if defined(__clang__)
#define MHC_UNROLL _Pragma("clang loop unroll(full)")
#else
#define MHC_UNROLL _Pragma("GCC unroll 32")
#endif
