// Stacks, the switch between them, and what the sanitizers want to know about it.
#pragma once
#include "cudasim.h"

#if defined(__SANITIZE_ADDRESS__)
#define CUDASIM_ASAN 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define CUDASIM_ASAN 0
#endif
#if defined(CUDASIM_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

#if defined(__x86_64__)
#define CUDASIM_UCONTEXT 0
#else
#define CUDASIM_UCONTEXT 1
#include <ucontext.h>
#endif

namespace cudasim {

struct Stack {
    char* bottom; // STACK_BYTES, aligned to that; the lowest page cannot be touched
    void* sanitizer;
#if CUDASIM_UCONTEXT
    ucontext_t context;
#endif
};

/// Maps a stack; ends the process where there is no memory for it.
Stack newStack();

/// Prepares a stack so that the first switch to it enters `entry`, which never returns.
///
/// @param colour neighbours with different ones do not fight for the same sets of the cache
void* arm(Stack& stack, unsigned colour, void (*entry)());

/// Says which CUDA thread runs on a stack.
static inline void setCurrent(const Stack& stack, Thread* thread) {
    *reinterpret_cast<Thread**>(stack.bottom + STACK_BYTES - STACK_TOP_BYTES) = thread;
}

/// Leaves here: the state goes to `*save`, and that of `load` goes on.
void switchStacks(void** save, void* load);

} // namespace cudasim
