// Runs recorded launches again, in a process that a sanitizer watches: replay FILE..., or replay --planted KERNEL for one
// of the kernels with a mistake. What is found goes to stderr, in the sanitizer's words.
#include "emulator/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

using namespace cudasim;

namespace {

constexpr uint64_t PAGE = 4096;

struct Allocation {
    uint64_t address, bytes;
    uint64_t start() const { return address / PAGE * PAGE; }
    uint64_t mapped() const { return (address + bytes + PAGE - 1) / PAGE * PAGE - start(); }
};

[[noreturn]] void stop(const char* file, const char* why) {
    fprintf(stderr, "replay: %s: %s\n", file, why);
    exit(3);
}

struct File {
    const char* name;
    FILE* f;
    void read(void* to, size_t bytes) {
        if (bytes && fread(to, bytes, 1, f) != 1) {
            stop(name, "it ends too early");
        }
    }
    template <class T> T read() {
        T value;
        read(&value, sizeof value);
        return value;
    }
};

/// At its old address, with nothing around it that may be touched.
void map(const File& file, const Allocation& a) {
    void* p = mmap(reinterpret_cast<void*>(a.start()), a.mapped(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (p == MAP_FAILED) {
        stop(file.name, "the place of an allocation is taken in this process");
    }
#if CUDASIM_ASAN
    __asan_poison_memory_region(p, a.mapped());
    __asan_unpoison_memory_region(reinterpret_cast<void*>(a.address), a.bytes);
#endif
}

void unmap(const Allocation& a) {
#if CUDASIM_ASAN
    __asan_unpoison_memory_region(reinterpret_cast<void*>(a.start()), a.mapped());
#endif
    munmap(reinterpret_cast<void*>(a.start()), a.mapped());
}

size_t pack(const Kernel& kernel, std::vector<char>& bytes, std::vector<void*>& pointers) {
    size_t at = 0;
    for (unsigned i = 0; i < kernel.parameters; i++) {
        uint32_t size = kernel.sizes[i];
        size_t aligned = size % 8 == 0 ? 8 : size % 4 == 0 ? 4 : size % 2 == 0 ? 2 : 1;
        at = (at + aligned - 1) / aligned * aligned;
        pointers.push_back(bytes.data() + at);
        at += size;
    }
    return at;
}

bool replay(const char* name) {
    File file{name, fopen(name, "rb")};
    char magic[sizeof RECORD_MAGIC] = {};
    if (!file.f) {
        stop(name, "cannot be read");
    }
    file.read(magic, sizeof RECORD_MAGIC - 1);
    if (strcmp(magic, RECORD_MAGIC) != 0) {
        stop(name, "no recorded launch");
    }
    std::string kernelName;
    while (char c = file.read<char>()) {
        kernelName += c;
    }
    uint32_t shape[6];
    file.read(shape, sizeof shape);
    uint64_t dynamicBytes = file.read<uint64_t>();
    std::vector<char> arguments(file.read<uint64_t>());
    file.read(arguments.data(), arguments.size());
    std::vector<Allocation> allocations(file.read<uint64_t>());
    file.read(allocations.data(), allocations.size() * sizeof(Allocation));
    for (const Allocation& a : allocations) {
        map(file, a);
        char* start = reinterpret_cast<char*>(a.address);
        for (uint64_t chunk; (chunk = file.read<uint64_t>()) != ~0ull;) {
            uint64_t at = (chunk & ~RECORD_FRESH) * RECORD_CHUNK;
            if (at >= a.bytes) {
                stop(name, "a chunk outside of its allocation");
            }
            uint64_t length = a.bytes - at < RECORD_CHUNK ? a.bytes - at : RECORD_CHUNK;
            if (chunk & RECORD_FRESH) {
                memset(start + at, 0xff, length);
            } else {
                file.read(start + at, length);
            }
        }
    }
    fclose(file.f);
    const Kernel* kernel = findKernel(kernelName.c_str());
    if (!kernel) {
        stop(name, "its kernel is not in this program");
    }
    std::vector<void*> pointers;
    if (pack(*kernel, arguments, pointers) != arguments.size()) {
        stop(name, "it was recorded with other parameters");
    }
    char message[MESSAGE_BYTES] = "";
    Launch launch{kernel, dim3(shape[0], shape[1], shape[2]), dim3(shape[3], shape[4], shape[5]), dynamicBytes, pointers.data()};
    Outcome outcome = run(launch, message);
    if (outcome != DONE) {
        fprintf(stderr, "replay: %s: %s\n", name, message);
    }
    for (const Allocation& a : allocations) {
        unmap(a);
    }
    return outcome == DONE;
}

bool planted(const char* name) {
    float* out = static_cast<float*>(calloc(64, sizeof(float)));
    int count = 1;
    void* arguments[] = {&out, &count};
    char message[MESSAGE_BYTES] = "";
    Launch launch{findKernel(name), dim3(1), dim3(!strcmp(name, "planted_out_of_bounds") ? 65 : 64), 256, arguments};
    Outcome outcome = launch.kernel ? run(launch, message) : FAILED;
    free(out);
    return outcome == DONE;
}

} // namespace

int main(int count, char** arguments) {
    bool good = true;
    if (count == 3 && !strcmp(arguments[1], "--planted")) {
        return planted(arguments[2]) ? 0 : 2;
    }
    for (int i = 1; i < count; i++) {
        good &= replay(arguments[i]);
    }
    printf("replay: %d launches\n", count - 1);
    return good ? 0 : 2;
}
