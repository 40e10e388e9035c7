// How the emulator behaves: from the environment when it is loaded, changed by millrace_cudasim_set.
#pragma once
#include <stdint.h>

namespace cudasim {

enum Schedule : int64_t { FORWARD, REVERSE, SHUFFLED };
enum Landing : int64_t { LATE, EARLY, MIXED };

struct Options {
    int64_t threads = 2;          // of the operating system, that run blocks
    int64_t schedule = FORWARD;   // in which order lanes, warps and blocks go on
    int64_t seed = 1;             // of the shuffled schedule, and of mixed landings
    int64_t landing = LATE;       // when an asynchronous copy to shared memory lands
    int64_t lazy = 0;             // streams run only when somebody waits for them
    int64_t guard = 0;            // an allocation ends at a page that cannot be touched
    int64_t poison = 1;           // fresh memory holds NaN
    int64_t memory = 64ll << 30;  // bytes of the device
    int64_t shared = 227 << 10;   // bytes that a block may have where its kernel asks for them
    int64_t truncate = 0;         // sums inside an mma are cut and not rounded
    int64_t fault = 0;            // of the launches from now on, which one fails as if the kernel had; 0 for none
    int64_t textOnly = 0;         // modules are taken as PTX alone, like by a driver older than the compiler of their code
    int64_t log = 0;              // failures also go to stderr
};

extern Options options;

} // namespace cudasim
