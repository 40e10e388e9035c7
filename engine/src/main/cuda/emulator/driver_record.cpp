// Launches written to files, so that they can run again without a JVM, under a sanitizer: MILLRACE_CUDASIM_RECORD names
// the folder. Of each kernel a few launches with different shapes are kept.
//
// A file: RECORD_MAGIC; the kernel's name, NUL; grid, block (6 x u32); dynamic shared bytes (u64); bytes of arguments (u64)
// and these; number of allocations (u64), each address and bytes (2 x u64); of each allocation the chunks of RECORD_CHUNK
// bytes that are not all 0, each with its number in the allocation (u64): fresh ones, all NaN, with RECORD_FRESH in the
// number, others with their content; ~0 at the end.
#include "driver.h"

#include <map>
#include <set>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

namespace cudasim {

namespace {

constexpr size_t LAUNCHES_OF_A_KERNEL = 4;

const char* folder() {
    static const char* name = getenv("MILLRACE_CUDASIM_RECORD");
    return name && *name ? name : nullptr;
}

template <class T> void write(FILE* f, T value) { fwrite(&value, sizeof value, 1, f); }

bool all(char value, const char* chunk, uint64_t bytes) {
    return *chunk == value && memcmp(chunk, chunk + 1, bytes - 1) == 0;
}

bool wanted(const Launch& l) {
    static std::map<std::string, std::set<std::string>> seen;
    std::set<std::string>& shapes = seen[l.kernel->name];
    std::string shape = std::to_string(l.grid.x) + "," + std::to_string(l.grid.y) + "," + std::to_string(l.grid.z) + "," + std::to_string(l.block.x)
        + "," + std::to_string(l.dynamicBytes);
    return shapes.size() < LAUNCHES_OF_A_KERNEL && shapes.insert(shape).second;
}

} // namespace

void* recordingAddress(size_t mapped) {
    // Free in most processes, and a place that the sanitizers leave to programs.
    static uintptr_t next = 0x7ea000000000;
    if (!folder()) {
        return nullptr;
    }
    uintptr_t address = next;
    next += mapped;
    return reinterpret_cast<void*>(address);
}

std::string record(const Launch& l, const std::vector<char>& arguments) {
    static int number;
    if (!folder() || !wanted(l)) {
        return "";
    }
    std::string path = std::string(folder()) + "/" + std::to_string(getpid()) + "-" + std::to_string(++number) + "-" + l.kernel->name + ".launch";
    FILE* f = fopen(path.c_str(), "wb");
    if (!f) {
        perror(path.c_str());
        return "";
    }
    fwrite(RECORD_MAGIC, sizeof RECORD_MAGIC - 1, 1, f);
    fwrite(l.kernel->name, strlen(l.kernel->name) + 1, 1, f);
    for (unsigned n : {l.grid.x, l.grid.y, l.grid.z, l.block.x, l.block.y, l.block.z}) {
        write(f, n);
    }
    write<uint64_t>(f, l.dynamicBytes);
    write<uint64_t>(f, arguments.size());
    fwrite(arguments.data(), arguments.size(), 1, f);
    uint64_t count = 0;
    eachAllocation([&](uint64_t, uint64_t) { count++; });
    write(f, count);
    eachAllocation([&](uint64_t address, uint64_t bytes) {
        write(f, address);
        write(f, bytes);
    });
    eachAllocation([&](uint64_t address, uint64_t bytes) {
        for (uint64_t at = 0; at < bytes; at += RECORD_CHUNK) {
            const char* chunk = reinterpret_cast<const char*>(address + at);
            uint64_t length = bytes - at < RECORD_CHUNK ? bytes - at : RECORD_CHUNK;
            if (all('\xff', chunk, length)) {
                write(f, at / RECORD_CHUNK | RECORD_FRESH);
            } else if (!all(0, chunk, length)) {
                write(f, at / RECORD_CHUNK);
                fwrite(chunk, length, 1, f);
            }
        }
        write(f, ~0ull);
    });
    fclose(f);
    return path;
}

} // namespace cudasim
