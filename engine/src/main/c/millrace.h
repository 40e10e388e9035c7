/* What every kernel of this library shares.
 *
 * The library is pure functions on pointers: no state, no threads, no allocation, no calls. Java cuts the work, checks
 * every range, holds the memory and chooses the functions. What a function computes, and in which order, is said by
 * millrace.engine.kernel.cpu.Loops and millrace.engine.kernel.Kernels; the bits must be those of ScalarLoops.
 *
 * To add a kernel:
 *   1. Write it in a source of its own, `NAME.c`, as `MILLRACE_EXPORT ... ISA(name)(...)` in terms of lanes.h. build.sh
 *      compiles every source once for each instruction set, so `name_avx512` and `name_avx2` come to be.
 *   2. Add its handle to Symbols.java and the call to NativeLoops.java.
 *   3. Add a case to SelfTest.java, which compares it with the Java loops when the library is loaded.
 *
 * Arguments are pointers, int64_t and float only: these pass from Java without conversion. Offsets into Java arrays
 * are numbers beside the pointer, so that Java need not make a slice for each call.
 */
#ifndef MILLRACE_H
#define MILLRACE_H

#include <stdint.h>

#define MILLRACE_EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))
/* For the forms of a tile: each is compiled once, not into each of its callers. */
#define ONCE static __attribute__((noinline))
/* Register tiles are arrays that exist in registers only when every loop over them is unrolled. */
#define UNROLL _Pragma("GCC unroll 32")
#define ROLLED _Pragma("GCC unroll 1")
#define MILLRACE_JOIN2(a, b) a##_##b
#define MILLRACE_JOIN(a, b) MILLRACE_JOIN2(a, b)
/* A function's name for the instruction set that is being compiled, given by build.sh: avx512, avx2. */
#define ISA(name) MILLRACE_JOIN(name, MILLRACE_ISA)

/* Rows of a weight panel, and so the lanes that everything here is laid out in. */
enum { LANES = 16 };

/* Floats from one row of a tile of results to the next, see Loops.TILE. */
enum { TILE = 4 * LANES };

#endif
