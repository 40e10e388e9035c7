#include "fibers.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

namespace cudasim {

namespace {
constexpr size_t GUARD_BYTES = 4096;
}

Stack newStack() {
    size_t mapped = 2 * STACK_BYTES;
    void* p = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        perror("cudasim: no memory for a stack");
        abort();
    }
    uintptr_t start = reinterpret_cast<uintptr_t>(p);
    uintptr_t bottom = (start + STACK_BYTES - 1) & ~(STACK_BYTES - 1);
    if (bottom > start) {
        munmap(p, bottom - start);
    }
    munmap(reinterpret_cast<void*>(bottom + STACK_BYTES), start + mapped - bottom - STACK_BYTES);
    mprotect(reinterpret_cast<void*>(bottom), GUARD_BYTES, PROT_NONE);
    Stack stack{};
    stack.bottom = reinterpret_cast<char*>(bottom);
    return stack;
}

#if !CUDASIM_UCONTEXT

// The registers that a function must keep, in the order of the pops; then the address to go on at.
extern "C" void cudasim_switch(void** save, void* load);
asm(R"(
.text
.globl cudasim_switch
.hidden cudasim_switch
.type cudasim_switch,@function
.p2align 5
cudasim_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp,(%rdi)
    movq %rsi,%rsp
.globl cudasim_resume
.hidden cudasim_resume
cudasim_resume:
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size cudasim_switch,.-cudasim_switch
)");

void* arm(Stack& stack, unsigned colour, void (*entry)()) {
#if CUDASIM_ASAN
    __asan_unpoison_memory_region(stack.bottom + GUARD_BYTES, STACK_BYTES - GUARD_BYTES);
#endif
    // Tops that are alike modulo 4096 would fight for the same few sets of the cache.
    uintptr_t top = reinterpret_cast<uintptr_t>(stack.bottom) + STACK_BYTES - STACK_TOP_BYTES - colour * 832 % 12288;
    void** sp = reinterpret_cast<void**>(top);
    *--sp = nullptr; // where a return address would be: keeps the alignment that a call leaves
    *--sp = reinterpret_cast<void*>(entry);
    for (int i = 0; i < 6; i++) {
        *--sp = nullptr;
    }
    return sp;
}

void switchStacks(void** save, void* load) { cudasim_switch(save, load); }

#else

void* arm(Stack& stack, unsigned, void (*entry)()) {
    getcontext(&stack.context);
    stack.context.uc_stack.ss_sp = stack.bottom + GUARD_BYTES;
    stack.context.uc_stack.ss_size = STACK_BYTES - GUARD_BYTES - STACK_TOP_BYTES;
    stack.context.uc_link = nullptr;
    makecontext(&stack.context, entry, 0);
    return &stack.context;
}

void switchStacks(void** save, void* load) {
    ucontext_t here;
    *save = &here; // lies on the stack that is left, which stays as it is until somebody comes back
    swapcontext(&here, static_cast<ucontext_t*>(load));
}

#endif

} // namespace cudasim
