// Kernels by name, options, the threads that run blocks, and faults.
#include "device.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <thread>
#include <ucontext.h>

namespace cudasim {

namespace {

int64_t fromEnvironment(const char* name, int64_t otherwise) {
    const char* value = getenv(name);
    return value && *value ? strtoll(value, nullptr, 0) : otherwise;
}

int64_t wordFromEnvironment(const char* name, const char* const* words, int64_t otherwise) {
    const char* value = getenv(name);
    for (int64_t i = 0; value && words[i]; i++) {
        if (!strcmp(value, words[i])) {
            return i;
        }
    }
    return otherwise;
}

Options optionsFromEnvironment() {
    static const char* const schedules[] = {"forward", "reverse", "shuffled", nullptr};
    static const char* const landings[] = {"late", "early", "mixed", nullptr};
    Options o;
    o.threads = fromEnvironment("MILLRACE_CUDASIM_THREADS", o.threads);
    o.schedule = wordFromEnvironment("MILLRACE_CUDASIM_SCHEDULE", schedules, o.schedule);
    o.seed = fromEnvironment("MILLRACE_CUDASIM_SEED", o.seed);
    o.landing = wordFromEnvironment("MILLRACE_CUDASIM_LANDING", landings, o.landing);
    o.lazy = fromEnvironment("MILLRACE_CUDASIM_LAZY", o.lazy);
    o.guard = fromEnvironment("MILLRACE_CUDASIM_GUARD", o.guard);
    o.poison = fromEnvironment("MILLRACE_CUDASIM_POISON", o.poison);
    o.memory = fromEnvironment("MILLRACE_CUDASIM_MEMORY", o.memory);
    o.shared = fromEnvironment("MILLRACE_CUDASIM_SHARED", o.shared);
    o.truncate = fromEnvironment("MILLRACE_CUDASIM_TRUNCATE", o.truncate);
    o.log = fromEnvironment("MILLRACE_CUDASIM_LOG", o.log);
    return o;
}

Kernel* kernels; // registered while the library is loaded, before any other thread sees it

std::atomic<uint64_t> allSwitches, allBlocks;

/// One launch, as the threads that run its blocks share it.
struct Job {
    const Launch* launch;
    uint64_t blocks;
    std::atomic<uint64_t> next{0};
    std::atomic<bool> failed{false};
    std::mutex mutex;
    Outcome outcome = DONE;
    char* message;
};

void runBlocks(Job& job) {
    Worker* w = worker();
    w->launch = job.launch;
    const dim3& grid = job.launch->grid;
    uint64_t seed = static_cast<uint64_t>(options.seed);
    for (;;) {
        uint64_t i = job.next.fetch_add(1);
        if (i >= job.blocks || job.failed) {
            break;
        }
        uint64_t j = options.schedule == REVERSE ? job.blocks - 1 - i : options.schedule == SHUFFLED ? (i + seed) % job.blocks : i;
        uint3 index = {static_cast<unsigned>(j % grid.x), static_cast<unsigned>(j / grid.x % grid.y),
                       static_cast<unsigned>(j / (static_cast<uint64_t>(grid.x) * grid.y))};
        if (!runBlock(w, index)) {
            std::lock_guard<std::mutex> lock(job.mutex);
            if (!job.failed.exchange(true)) {
                job.outcome = w->outcome;
                memcpy(job.message, w->message, MESSAGE_BYTES);
            }
        }
    }
    allSwitches += w->switches;
    w->switches = 0;
}

/// Threads that help the one that launches.
class Helpers {
public:
    void run(Job& job, unsigned wanted) {
        std::unique_lock<std::mutex> lock(mutex);
        while (count < wanted) {
            std::thread([this] { serve(); }).detach();
            count++;
        }
        current = &job;
        places = wanted;
        wake.notify_all();
        lock.unlock();
        runBlocks(job);
        lock.lock();
        places = 0;
        done.wait(lock, [this] { return working == 0; });
        current = nullptr;
    }

private:
    void serve() {
        std::unique_lock<std::mutex> lock(mutex);
        for (;;) {
            wake.wait(lock, [this] { return places > 0; });
            places--;
            working++;
            Job& job = *current;
            lock.unlock();
            runBlocks(job);
            lock.lock();
            if (--working == 0) {
                done.notify_all();
            }
        }
    }

    std::mutex mutex;
    std::condition_variable wake, done;
    Job* current = nullptr;
    unsigned count = 0, places = 0, working = 0;
};

} // namespace

Options options = optionsFromEnvironment();

extern "C" void cudasim_register(Kernel* kernel) {
    kernel->next = kernels;
    kernels = kernel;
}

const Kernel* findKernel(const char* name) {
    const Kernel* k = kernels;
    while (k && strcmp(k->name, name) != 0) {
        k = k->next;
    }
    return k;
}

Outcome run(const Launch& launch, char* message) {
    static std::mutex one;
    static Helpers* helpers = new Helpers(); // never destroyed: its threads wait until the process ends
    std::lock_guard<std::mutex> lock(one);
    Job job;
    job.launch = &launch;
    job.blocks = static_cast<uint64_t>(launch.grid.x) * launch.grid.y * launch.grid.z;
    job.message = message;
    uint64_t threads = options.threads < 1 ? 1 : static_cast<uint64_t>(options.threads);
    helpers->run(job, static_cast<unsigned>((threads < job.blocks ? threads : job.blocks) - 1));
    allBlocks += job.blocks;
    return job.outcome;
}

uint64_t switches() { return allSwitches; }
uint64_t blocksRun() { return allBlocks; }

// ------------------------------------------------------------------------------------------------ faults

#if defined(__x86_64__) && !defined(CUDASIM_SANITIZED)

extern "C" __attribute__((visibility("hidden"))) char cudasim_resume[];

namespace {

struct sigaction previousSegv, previousBus;

/// A fault of a kernel leaves the kernel: the thread goes on in the loop over blocks, as if the kernel had given up.
void onFault(int signal, siginfo_t* info, void* context) {
    ucontext_t* machine = static_cast<ucontext_t*>(context);
    uintptr_t sp = static_cast<uintptr_t>(machine->uc_mcontext.gregs[REG_RSP]);
    Worker* w = runningWorker(sp);
    if (w) {
        Thread* t = *reinterpret_cast<Thread**>((sp | (STACK_BYTES - 1)) + 1 - STACK_TOP_BYTES);
        w->outcome = BAD_ADDRESS;
        snprintf(w->message, MESSAGE_BYTES, "kernel %s, block (%u,%u,%u), thread (%u,%u,%u): access to the address %p, which is not its own",
                 w->launch->kernel->name, w->block.index.x, w->block.index.y, w->block.index.z, t->index.x, t->index.y, t->index.z, info->si_addr);
        machine->uc_mcontext.gregs[REG_RSP] = static_cast<greg_t>(reinterpret_cast<uintptr_t>(w->home));
        machine->uc_mcontext.gregs[REG_RIP] = static_cast<greg_t>(reinterpret_cast<uintptr_t>(cudasim_resume));
        return;
    }
    const struct sigaction& previous = signal == SIGBUS ? previousBus : previousSegv;
    if (previous.sa_flags & SA_SIGINFO) {
        previous.sa_sigaction(signal, info, context);
    } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
        previous.sa_handler(signal);
    } else {
        sigaction(signal, &previous, nullptr); // the instruction comes again, and ends the process
    }
}

} // namespace

void catchFaults() {
    static std::once_flag once;
    std::call_once(once, [] {
        for (int signal : {SIGSEGV, SIGBUS}) {
            struct sigaction* previous = signal == SIGBUS ? &previousBus : &previousSegv;
            sigaction(signal, nullptr, previous);
            struct sigaction action = {};
            action.sa_sigaction = onFault;
            action.sa_flags = (previous->sa_flags & SA_ONSTACK) | SA_SIGINFO | SA_RESTART;
            action.sa_mask = previous->sa_mask;
            sigaction(signal, &action, nullptr);
        }
    });
}

#else

void catchFaults() {}

#endif

} // namespace cudasim
