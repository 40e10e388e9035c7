/* What the processor can run. Compiled for the baseline, so that it can be asked on any machine. */
#include "millrace.h"

/* 0: none of the instruction sets here; 1: AVX2 and FMA; 2: AVX-512 F, BW, VL, DQ; 3: also VBMI and VNNI. Whether the
 * operating system saves the wide registers is part of the answer. */
MILLRACE_EXPORT int64_t cpu_level(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        return 0;
    }
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl")
            || !__builtin_cpu_supports("avx512dq")) {
        return 1;
    }
    return __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni") ? 3 : 2;
#else
    return 0;
#endif
}
