// One block: which thread goes on, barriers, and what the lanes of a warp do together.
#include "device.h"

#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

namespace cudasim {

thread_local Own own;

namespace {

constexpr size_t SHARED_BYTES = 256 << 10;
constexpr unsigned MAX_SPINS = 1000000;
const char* const OP_NAMES[] = {"", "__syncwarp", "a shuffle", "a vote", "__match_any_sync", "a sum", "a minimum", "a maximum", "a minimum",
                                "a maximum", "an and", "an or", "a xor", "mma bf16", "mma f16"};

const char* baseName(const char* file) {
    const char* slash = strrchr(file, '/');
    return slash ? slash + 1 : file;
}

// ------------------------------------------------------------------------------------------------ sanitizers

void beforeSwitch([[maybe_unused]] Worker* w, [[maybe_unused]] Thread* to, [[maybe_unused]] void** fake) {
#if CUDASIM_ASAN
    if (to) {
        __sanitizer_start_switch_fiber(fake, w->stacks[to->stack].bottom, STACK_BYTES);
    } else {
        __sanitizer_start_switch_fiber(fake, w->homeBottom, w->homeBytes);
    }
#endif
#if defined(CUDASIM_TSAN)
    __tsan_switch_to_fiber(to ? w->stacks[to->stack].sanitizer : w->homeSanitizer, __tsan_switch_to_fiber_no_sync);
#endif
}

void afterSwitch([[maybe_unused]] void* fake) {
#if CUDASIM_ASAN
    __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

// ------------------------------------------------------------------------------------------------ who goes on

inline uint64_t nextRandom(Block& b) {
    b.random ^= b.random << 13;
    b.random ^= b.random >> 7;
    b.random ^= b.random << 17;
    return b.random >> 16;
}

inline unsigned randomBit(Block& b, uint32_t set) {
    unsigned skip = static_cast<unsigned>(nextRandom(b) % static_cast<unsigned>(__builtin_popcount(set)));
    while (skip--) {
        set &= set - 1;
    }
    return static_cast<unsigned>(__builtin_ctz(set));
}

inline void wake(Worker* w, Warp* warp, uint32_t lanes) {
    warp->ready |= lanes;
    w->block.readyWarps |= 1u << (warp - w->warps);
}

inline void sleep(Worker* w, Warp* warp, uint32_t lane) {
    warp->ready &= ~lane;
    if (!warp->ready) {
        w->block.readyWarps &= ~(1u << (warp - w->warps));
    }
}

/// The next thread, or null where none can go on.
inline Thread* pick(Worker* w, unsigned lastWarp) {
    Block& b = w->block;
    uint32_t warps = b.readyWarps;
    if (!warps) {
        return nullptr;
    }
    unsigned warp, lane;
    if (__builtin_expect(w->schedule == SHUFFLED, 0)) {
        warp = randomBit(b, warps);
        lane = randomBit(b, w->warps[warp].ready);
    } else if (w->schedule == REVERSE) {
        warp = warps >> lastWarp & 1 ? lastWarp : 31 - static_cast<unsigned>(__builtin_clz(warps));
        lane = 31 - static_cast<unsigned>(__builtin_clz(w->warps[warp].ready));
    } else {
        warp = warps >> lastWarp & 1 ? lastWarp : static_cast<unsigned>(__builtin_ctz(warps));
        lane = static_cast<unsigned>(__builtin_ctz(w->warps[warp].ready));
    }
    return &w->threads[warp * WARP + lane];
}

[[noreturn]] void threadMain();

/// Gives a thread that has not begun a stack.
void begin(Worker* w, Thread* t) {
#if defined(CUDASIM_TSAN)
    t->stack = static_cast<int>(t->linear); // a stack is a thread to the sanitizer, so each has its own
#else
    if (!w->freeCount) {
        w->freeStacks[w->freeCount++] = static_cast<int>(w->stackCount);
        w->stacks[w->stackCount++] = newStack();
    }
    t->stack = w->freeStacks[--w->freeCount];
#endif
    Stack& stack = w->stacks[t->stack];
    t->sp = arm(stack, t->linear, reinterpret_cast<void (*)()>(&threadMain));
    setCurrent(stack, t);
}

/// Leaves a thread, which goes on when it is picked again.
inline void leave(Worker* w, Thread* from, Thread* to) {
    w->switches++;
    if (to && to->stack < 0) {
        begin(w, to);
    }
    beforeSwitch(w, to, &from->sanitizer);
    switchStacks(&from->sp, to ? to->sp : w->home);
    afterSwitch(from->sanitizer);
}

/// The running thread cannot go on: another does.
inline void suspend(Worker* w, Thread* t) {
    w->spins = 0;
    leave(w, t, pick(w, static_cast<unsigned>(t->warp - w->warps)));
}

bool formsGroup(const Warp* warp, uint32_t group) {
    unsigned first = static_cast<unsigned>(__builtin_ctz(group));
    for (uint32_t m = group & (group - 1); m; m &= m - 1) {
        unsigned lane = static_cast<unsigned>(__builtin_ctz(m));
        if (warp->key[lane] != warp->key[first]) {
            return false;
        }
    }
    return true;
}

inline void completeGroup(Worker* w, Warp* warp, uint32_t group) {
    complete(warp, group);
    warp->waiting &= ~group;
    wake(w, warp, group);
}

void releaseBarrier(Worker* w, unsigned id) {
    Block& b = w->block;
    for (unsigned i = 0; i < b.warps; i++) {
        if (b.atBarrier[id][i]) {
            wake(w, &w->warps[i], b.atBarrier[id][i]);
            b.atBarrier[id][i] = 0;
        }
    }
    b.arrived[id] = b.expected[id] = 0;
}

/// A thread has returned from the kernel: others may have waited for nobody but it.
void retire(Worker* w, Thread* t) {
    Block& b = w->block;
    Warp* warp = t->warp;
    sleep(w, warp, 1u << t->lane);
    warp->live &= ~(1u << t->lane);
    b.live--;
    w->spins = 0;
    uint32_t left = warp->waiting;
    while (left) {
        unsigned lane = static_cast<unsigned>(__builtin_ctz(left));
        uint32_t group = keyMask(warp->key[lane]) & warp->live;
        left &= left - 1;
        if ((warp->waiting & group) == group && formsGroup(warp, group)) {
            if (keyOp(warp->key[lane]) >= MMA_BF16) {
                fail(FAILED, "this lane has returned, and lane %u waits for it in an mma at %s:%u", lane, baseName(warp->file[lane]),
                     keyLine(warp->key[lane]));
            }
            completeGroup(w, warp, group);
            left &= ~group;
        }
    }
    for (unsigned id = 0; id < BARRIERS; id++) {
        if (b.arrived[id] && !b.expected[id] && b.arrived[id] == b.live) {
            releaseBarrier(w, id);
        }
    }
}

[[noreturn]] void threadMain() {
    Thread* t = current();
    Worker* w = reinterpret_cast<Worker*>(t->block);
#if CUDASIM_ASAN
    const void* bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(nullptr, &bottom, &bytes);
    if (!w->homeBottom) {
        w->homeBottom = bottom;
        w->homeBytes = bytes;
    }
#endif
    for (;;) {
        cudasim_acquire(&w->launch);
        w->launch->kernel->entry(w->launch->arguments);
        cudasim_release(&w->outcome);
        retire(w, t);
        Thread* next = pick(w, static_cast<unsigned>(t->warp - w->warps));
#if defined(CUDASIM_TSAN)
        leave(w, t, next);
#else
        if (next && next->stack < 0) {
            // Nothing of this thread is left on the stack, so the next one needs no other: a call and no switch.
            next->stack = t->stack;
            t = next;
            setCurrent(w->stacks[t->stack], t);
            continue;
        }
        w->freeStacks[w->freeCount++] = t->stack;
        beforeSwitch(w, next, nullptr);
        switchStacks(&t->sp, next ? next->sp : w->home);
        __builtin_unreachable();
#endif
    }
}

// ------------------------------------------------------------------------------------------------ failures

/// All live threads wait, and nobody can wake them.
void reportDeadlock(Worker* w) {
    Block& b = w->block;
    int at = snprintf(w->message, MESSAGE_BYTES, "kernel %s, block (%u,%u,%u): deadlock, %u of %u threads have not returned:", w->launch->kernel->name,
                      b.index.x, b.index.y, b.index.z, b.live, b.threads);
    unsigned groups = 0;
    for (unsigned i = 0; i < b.warps; i++) {
        Warp& warp = w->warps[i];
        uint32_t left = warp.live;
        while (left && at < static_cast<int>(MESSAGE_BYTES) - 160) {
            unsigned first = static_cast<unsigned>(__builtin_ctz(left));
            uint32_t alike = 0;
            for (uint32_t m = left; m; m &= m - 1) {
                unsigned lane = static_cast<unsigned>(__builtin_ctz(m));
                if (warp.key[lane] == warp.key[first]) {
                    alike |= 1u << lane;
                }
            }
            left &= ~alike;
            bool barrier = !(warp.waiting >> first & 1);
            if (++groups > 8) {
                at += snprintf(w->message + at, MESSAGE_BYTES - static_cast<size_t>(at), " ...");
                return;
            }
            at += snprintf(w->message + at, MESSAGE_BYTES - static_cast<size_t>(at), "%s warp %u lanes %08x (live %08x) in %s at %s:%u",
                           groups > 1 ? ";" : "", i, alike, warp.live, barrier ? "a barrier" : OP_NAMES[keyOp(warp.key[first])],
                           baseName(warp.file[first]), keyLine(warp.key[first]));
            if (!barrier) {
                at += snprintf(w->message + at, MESSAGE_BYTES - static_cast<size_t>(at), " with mask %08x", keyMask(warp.key[first]));
            }
        }
    }
}

} // namespace

void fail(Outcome outcome, const char* format, ...) {
    Thread* t = current();
    Worker* w = reinterpret_cast<Worker*>(t->block);
    w->outcome = outcome;
    int at = snprintf(w->message, MESSAGE_BYTES, "kernel %s, block (%u,%u,%u), thread (%u,%u,%u), warp %u lane %u: ", w->launch->kernel->name,
                      w->block.index.x, w->block.index.y, w->block.index.z, t->index.x, t->index.y, t->index.z, t->linear / WARP, t->lane);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(w->message + at, MESSAGE_BYTES - static_cast<size_t>(at), format, arguments);
    va_end(arguments);
    leave(w, t, nullptr);
    __builtin_unreachable();
}

#if defined(CUDASIM_TSAN)
extern "C" void cudasim_release(void* p) { __tsan_release(p); }
extern "C" void cudasim_acquire(void* p) { __tsan_acquire(p); }
#endif

extern "C" void cudasim_trap(const char* message) { fail(FAILED, "%s", message); }

extern "C" void cudasim_yield(void) {
    Thread* t = current();
    Worker* w = reinterpret_cast<Worker*>(t->block);
    if (++w->spins > MAX_SPINS) {
        fail(FAILED, "threads wait for a copy or a flag that never comes");
    }
    // The next after this one, so that all get their turn.
    unsigned warp = static_cast<unsigned>(t->warp - w->warps);
    uint32_t after = t->lane == 31 ? 0 : t->warp->ready & ~((2u << t->lane) - 1);
    if (!after) {
        uint32_t others = warp == 31 ? 0 : w->block.readyWarps & ~((2u << warp) - 1);
        warp = static_cast<unsigned>(__builtin_ctz(others ? others : w->block.readyWarps));
        after = w->warps[warp].ready;
    }
    Thread* next = &w->threads[warp * WARP + static_cast<unsigned>(__builtin_ctz(after))];
    if (next != t) {
        leave(w, t, next);
    }
}

// ------------------------------------------------------------------------------------------------ barriers

extern "C" void cudasim_barrier(unsigned id, unsigned count, const char* file, unsigned line) {
    Thread* t = current();
    Worker* w = reinterpret_cast<Worker*>(t->block);
    Block& b = w->block;
    if (id >= BARRIERS || count % WARP != 0 || count > b.threads) {
        fail(FAILED, "barrier %u for %u threads at %s:%u: there are barriers 0 to 15, for a multiple of 32 threads up to the block's %u", id, count,
             baseName(file), line, b.threads);
    }
    if (b.arrived[id] && b.expected[id] != count) {
        fail(FAILED, "barrier %u at %s:%u is for %u threads, at %s:%u for %u", id, baseName(file), line, count,
             baseName(b.barrierSite[id].file), b.barrierSite[id].line, b.expected[id]);
    }
    if (b.arrived[id] && !count && b.barrierSite[id].line != line) {
        fail(FAILED, "divergent barrier: this thread is at %s:%u, others wait at %s:%u", baseName(file), line,
             baseName(b.barrierSite[id].file), b.barrierSite[id].line);
    }
    cudasim_release(&b.arrived[id]);
    b.expected[id] = count;
    b.barrierSite[id] = {file, line};
    if (++b.arrived[id] == (count ? count : b.live)) {
        releaseBarrier(w, id);
    } else {
        Warp* warp = t->warp;
        warp->key[t->lane] = meetingKey(NONE, 0, line);
        warp->file[t->lane] = file;
        b.atBarrier[id][warp - w->warps] |= 1u << t->lane;
        sleep(w, warp, 1u << t->lane);
        suspend(w, t);
    }
    cudasim_acquire(&b.arrived[id]);
}

// ------------------------------------------------------------------------------------------------ meetings

namespace {

/// Two lanes that want each other, and not for the same: they would wait for ever.
void checkAgainst(const Warp* warp, uint32_t lanes, unsigned self) {
    uint64_t own = warp->key[self];
    for (uint32_t m = lanes; m; m &= m - 1) {
        unsigned lane = static_cast<unsigned>(__builtin_ctz(m));
        uint64_t other = warp->key[lane];
        bool sameSync = keyOp(own) == SYNCWARP && keyOp(other) == SYNCWARP && keyMask(own) == keyMask(other);
        if ((keyMask(other) >> self & 1) && other != own && !sameSync) {
            fail(FAILED, "lanes disagree: this one is in %s at %s:%u with mask %08x, lane %u waits in %s at %s:%u with mask %08x", OP_NAMES[keyOp(own)],
                 baseName(warp->file[self]), keyLine(own), keyMask(own), lane, OP_NAMES[keyOp(other)], baseName(warp->file[lane]), keyLine(other),
                 keyMask(other));
        }
    }
}

[[noreturn]] __attribute__((noinline)) void refuseMeeting(Op op, uint32_t mask, uint32_t live, const char* file, unsigned line) {
    if (op >= MMA_BF16) {
        fail(FAILED, "%s at %s:%u needs all 32 lanes; live are %08x", OP_NAMES[op], baseName(file), line, live);
    }
    fail(FAILED, "%s at %s:%u: the mask %08x lacks the lane that calls", OP_NAMES[op], baseName(file), line, mask);
}

inline void meet(Thread* t, Op op, uint32_t mask, const char* file, unsigned line) {
    Warp* warp = t->warp;
    unsigned lane = t->lane;
    uint32_t bit = 1u << lane;
    if (__builtin_expect(!(mask & bit) || (op >= MMA_BF16 && warp->live != 0xffffffffu), 0)) {
        refuseMeeting(op, mask, warp->live, file, line);
    }
    Worker* w = reinterpret_cast<Worker*>(t->block);
    cudasim_release(warp);
    // A __syncwarp may stand on several lines.
    uint64_t key = meetingKey(op, mask, op == SYNCWARP ? 0 : line);
    warp->key[lane] = key;
    warp->file[lane] = file;
    uint32_t waiting = warp->waiting;
    if (!waiting) {
        warp->groupKey = key;
        warp->mixed = false;
    } else if (__builtin_expect(warp->groupKey != key || warp->mixed, 0)) {
        warp->mixed = true;
        checkAgainst(warp, waiting & mask, lane);
    }
    warp->waiting = waiting |= bit;
    uint32_t group = mask & warp->live;
    if ((waiting & group) == group && (!warp->mixed || formsGroup(warp, group))) {
        completeGroup(w, warp, group);
    } else {
        uint32_t ready = warp->ready & ~bit;
        if (__builtin_expect(ready && w->schedule == FORWARD, 1)) {
            warp->ready = ready;
            w->spins = 0;
            leave(w, t, t - lane + __builtin_ctz(ready));
        } else {
            sleep(w, warp, bit);
            suspend(w, t);
        }
    }
    cudasim_acquire(warp);
}

} // namespace

extern "C" void cudasim_meet(Op op, uint32_t mask, const char* file, unsigned line) { meet(current(), op, mask, file, line); }

extern "C" uint64_t cudasim_collective(Op op, uint32_t mask, uint64_t value, int source, const char* file, unsigned line) {
    Thread* t = current();
    t->warp->value[t->lane] = value;
    t->warp->source[t->lane] = source;
    meet(t, op, mask, file, line);
    return t->warp->result[t->lane];
}

// ------------------------------------------------------------------------------------------------ a block

namespace {

/// Finds this thread's thread-local storage of this library.
int findStaticShared(dl_phdr_info* info, size_t, void*) {
    uintptr_t here = reinterpret_cast<uintptr_t>(&findStaticShared);
    bool ours = false;
    const ElfW(Phdr)* tls = nullptr;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr)& p = info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + p.p_vaddr;
        ours |= p.p_type == PT_LOAD && here >= start && here < start + p.p_memsz;
        if (p.p_type == PT_TLS) {
            tls = &p;
        }
    }
    if (!ours) {
        return 0;
    }
    if (tls && info->dlpi_tls_data) {
        own.shared = static_cast<char*>(info->dlpi_tls_data);
        own.sharedBytes = tls->p_memsz;
    }
    return 1;
}

/// Fills the `__shared__` variables with NaN: a block finds nothing of the one before.
void poisonStaticShared() {
    if (!own.sharedKnown) {
        own.sharedKnown = true;
        dl_iterate_phdr(findStaticShared, nullptr);
    }
    if (own.sharedBytes > sizeof own) {
        Own keep = own;
        memset(keep.shared, 0xff, keep.sharedBytes);
        own = keep;
    }
}

void prepare(Worker* w, uint3 index) {
    const Launch& launch = *w->launch;
    Block& b = w->block;
    b.index = index;
    b.size = launch.block;
    b.grid = launch.grid;
    b.threads = b.live = launch.block.x * launch.block.y * launch.block.z;
    b.warps = (b.threads + WARP - 1) / WARP;
    b.readyWarps = b.warps == 32 ? 0xffffffffu : (1u << b.warps) - 1;
    b.bulks = 0;
    b.early = options.landing == EARLY;
    b.mixed = options.landing == MIXED;
    uint64_t place = (static_cast<uint64_t>(index.z) << 42) + (static_cast<uint64_t>(index.y) << 21) + index.x;
    b.random = (static_cast<uint64_t>(options.seed) * 0x9E3779B97F4A7C15ull ^ (place + 1) * 0xD1B54A32D192ED03ull) | 1;
    memset(b.arrived, 0, sizeof b.arrived);
    memset(b.expected, 0, sizeof b.expected);
    memset(b.atBarrier, 0, sizeof b.atBarrier);
    size_t aligned = options.guard ? 16 : 128;
    size_t bytes = (launch.dynamicBytes + aligned - 1) / aligned * aligned;
    b.dynamicBytes = launch.dynamicBytes;
    b.dynamicShared = w->shared + SHARED_BYTES - bytes;
#if CUDASIM_ASAN
    __asan_poison_memory_region(w->shared, SHARED_BYTES);
    __asan_unpoison_memory_region(b.dynamicShared, launch.dynamicBytes);
#endif
    if (options.poison) {
        memset(b.dynamicShared, 0xff, launch.dynamicBytes);
        poisonStaticShared();
    }
    for (unsigned i = 0; i < b.warps; i++) {
        Warp& warp = w->warps[i];
        unsigned lanes = b.threads - i * WARP < WARP ? b.threads - i * WARP : WARP;
        warp.live = warp.ready = lanes == WARP ? 0xffffffffu : (1u << lanes) - 1;
        warp.waiting = 0;
    }
    unsigned linear = 0;
    for (unsigned z = 0; z < b.size.z; z++) {
        for (unsigned y = 0; y < b.size.y; y++) {
            for (unsigned x = 0; x < b.size.x; x++, linear++) {
                Thread& t = w->threads[linear];
                t.index = {x, y, z};
                t.stack = -1;
                t.copies = t.copyGroup = 0;
            }
        }
    }
    w->schedule = static_cast<Schedule>(options.schedule);
    w->spins = 0;
    w->outcome = DONE;
    w->freeCount = 0;
    for (unsigned i = w->stackCount; i-- > 0;) {
        w->freeStacks[w->freeCount++] = static_cast<int>(i);
    }
}

} // namespace

Worker* newWorker() {
    void* p = aligned_alloc(64, sizeof(Worker));
    memset(p, 0, sizeof(Worker));
    Worker* w = static_cast<Worker*>(p);
    w->threads = static_cast<Thread*>(aligned_alloc(64, sizeof(Thread) * MAX_THREADS));
    w->warps = static_cast<Warp*>(aligned_alloc(64, sizeof(Warp) * MAX_WARPS));
    memset(static_cast<void*>(w->threads), 0, sizeof(Thread) * MAX_THREADS);
    memset(static_cast<void*>(w->warps), 0, sizeof(Warp) * MAX_WARPS);
    Copy* copies = static_cast<Copy*>(malloc(sizeof(Copy) * MAX_COPIES * MAX_THREADS));
    for (unsigned i = 0; i < MAX_THREADS; i++) {
        Thread& t = w->threads[i];
        t.block = &w->block;
        t.warp = &w->warps[i / WARP];
        t.lane = i % WARP;
        t.linear = i;
        t.copy = copies + i * MAX_COPIES;
    }
    constexpr size_t page = 4096;
    void* shared = mmap(nullptr, SHARED_BYTES + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    w->shared = static_cast<char*>(shared) + page;
    mprotect(w->shared, SHARED_BYTES, PROT_READ | PROT_WRITE);
    own.worker = w;
    return w;
}

Worker* worker() { return own.worker ? own.worker : newWorker(); }

Worker* runningWorker(uintptr_t stackPointer) {
    Worker* w = own.worker;
    if (w) {
        for (unsigned i = 0; i < w->stackCount; i++) {
            if (stackPointer - reinterpret_cast<uintptr_t>(w->stacks[i].bottom) < STACK_BYTES) {
                return w;
            }
        }
    }
    return nullptr;
}

bool runBlock(Worker* w, uint3 index) {
    prepare(w, index);
#if defined(CUDASIM_TSAN)
    // Here and not where a thread begins: to the sanitizer a thread knows all that its creator did.
    while (w->stackCount < w->block.threads) {
        w->stacks[w->stackCount] = newStack();
        w->stacks[w->stackCount++].sanitizer = __tsan_create_fiber(0);
    }
    w->homeSanitizer = __tsan_get_current_fiber();
#endif
    cudasim_release(&w->launch);
    Thread* first = pick(w, 0);
    begin(w, first);
    w->switches++;
    beforeSwitch(w, first, &w->homeSanitizer);
    switchStacks(&w->home, first->sp);
#if CUDASIM_ASAN
    afterSwitch(w->homeSanitizer);
#endif
    cudasim_acquire(&w->outcome);
    if (w->outcome == DONE && w->block.live) {
        w->outcome = FAILED;
        reportDeadlock(w);
    }
    return w->outcome == DONE;
}

} // namespace cudasim
