// Runs launches: the inside of the emulated device.
#pragma once
#include "cudasim.h"
#include "fibers.h"
#include "options.h"

namespace cudasim {

constexpr size_t MESSAGE_BYTES = 1024;

struct Launch {
    const Kernel* kernel;
    dim3 grid, block;
    size_t dynamicBytes;
    void* const* arguments;
};

enum Outcome { DONE, FAILED, BAD_ADDRESS };

/// Runs all blocks and waits for them.
///
/// @param message why it failed, MESSAGE_BYTES long
Outcome run(const Launch& launch, char* message);

const Kernel* findKernel(const char* name);

/// What one thread of the operating system needs to run blocks: kept from block to block.
struct Worker {
    Block block;
    Thread* threads;
    Warp* warps;
    const Launch* launch;
    char* shared; // ends where the mapping ends; the page behind it cannot be touched
    size_t sharedBytes;
    Stack stacks[MAX_THREADS];
    int freeStacks[MAX_THREADS];
    unsigned stackCount, freeCount;
    void* home; // the state of the loop over blocks, while a thread of a block runs
    Schedule schedule;
    unsigned spins;
    Outcome outcome;
    char message[MESSAGE_BYTES];
    void* homeSanitizer;
    const void* homeBottom;
    size_t homeBytes;
    uint64_t switches;
};


/// All that this library keeps for each thread of the operating system, in one place: the rest of its thread-local
/// storage is the `__shared__` variables of kernels, which are poisoned together.
struct Own {
    Worker* worker;
    void* context;   // current for the driver's calls
    int capturing;   // streams that capture, begun by this thread and only for it
    bool sharedKnown;
    char* shared;    // where the thread-local storage lies
    size_t sharedBytes;
};
extern thread_local Own own;

/// Runs one block; false with outcome and message in the worker.
bool runBlock(Worker* worker, uint3 index);

/// That of this thread of the operating system.
Worker* worker();

/// The worker whose kernel runs on the stack with this pointer, on this thread; null outside of kernels.
Worker* runningWorker(uintptr_t stackPointer);

/// Ends the block of the running thread with a message.
[[noreturn]] void fail(Outcome outcome, const char* format, ...) __attribute__((format(printf, 2, 3)));

/// Does what the waiting lanes of `mask` came for.
void complete(Warp* warp, uint32_t mask);
void multiply(Warp* warp, Op op);

/// Faults inside kernels become failures of the launch.
void catchFaults();

uint64_t switches();
uint64_t blocksRun();

} // namespace cudasim
