// Device and host memory, and what moves bytes between them.
#include "driver.h"

#include <map>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

namespace cudasim {

namespace {

using Address = unsigned long long;

constexpr size_t PAGE = 4096;
constexpr size_t ALIGNMENT = 256;
constexpr size_t POISON_BYTES = 16 << 20;

struct Allocation {
    size_t bytes, mapped;
    void* mapping;
};

std::map<uintptr_t, Allocation> device, host;
std::map<uintptr_t, size_t> registered;
uint64_t used;

/// A file of 0xff in memory: mapped privately again and again it makes fresh memory read as NaN, and costs nothing
/// before it is written.
int poisonFile() {
    static int file = [] {
        int f = memfd_create("cudasim-poison", MFD_CLOEXEC);
        if (f >= 0) {
            std::string bytes(1 << 20, '\xff');
            for (size_t at = 0; at < POISON_BYTES; at += bytes.size()) {
                if (pwrite(f, bytes.data(), bytes.size(), static_cast<off_t>(at)) != static_cast<ssize_t>(bytes.size())) {
                    close(f);
                    return -1;
                }
            }
        }
        return f;
    }();
    return file;
}

void poison(char* start, size_t bytes) {
    int file = bytes >= POISON_BYTES ? poisonFile() : -1;
    size_t at = 0;
    for (; file >= 0 && at + PAGE <= bytes; at += POISON_BYTES) {
        size_t n = bytes - at < POISON_BYTES ? bytes - at : POISON_BYTES;
        if (mmap(start + at, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file, 0) == MAP_FAILED) {
            break;
        }
    }
    if (at < bytes) {
        memset(start + at, 0xff, bytes - at);
    }
}

/// The whole of a mapping between two pages that cannot be touched, the allocation at its end where `guard` says so.
CUresult allocate(const char* call, Address* out, size_t bytes) {
    if (!bytes) {
        return refuse(CUDA_ERROR_INVALID_VALUE, std::string(call) + ": no bytes asked for");
    }
    if (bytes > static_cast<uint64_t>(options.memory) || used + bytes > static_cast<uint64_t>(options.memory)) {
        return refuse(CUDA_ERROR_OUT_OF_MEMORY, std::string(call) + ": " + std::to_string(bytes) + " bytes asked for, "
                          + std::to_string(static_cast<uint64_t>(options.memory) - used) + " left of " + std::to_string(options.memory));
    }
    size_t body = (bytes + PAGE - 1) / PAGE * PAGE;
    size_t mapped = body + 2 * PAGE;
    void* p = mmap(recordingAddress(mapped), mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        return refuse(CUDA_ERROR_OUT_OF_MEMORY, std::string(call) + ": the system has no room for " + std::to_string(bytes) + " bytes");
    }
    char* start = static_cast<char*>(p) + PAGE;
    mprotect(start, body, PROT_READ | PROT_WRITE);
    if (options.poison) {
        poison(start, body);
    }
    // Aligned like a device's memory, unless an overrun by one element is to be found too.
    size_t aligned = options.guard ? 16 : ALIGNMENT;
    char* first = options.guard ? start + body - (bytes + aligned - 1) / aligned * aligned : start;
    device[reinterpret_cast<uintptr_t>(first)] = {bytes, mapped, p};
    used += bytes;
    *out = reinterpret_cast<uintptr_t>(first);
    return CUDA_SUCCESS;
}

CUresult release(Address address) {
    auto found = device.find(address);
    if (found == device.end()) {
        return refuse(CUDA_ERROR_INVALID_VALUE, "cuMemFree: the address begins no allocation");
    }
    used -= found->second.bytes;
    munmap(found->second.mapping, found->second.mapped);
    device.erase(found);
    return CUDA_SUCCESS;
}

const std::pair<const uintptr_t, Allocation>* holder(Address address) {
    auto next = device.upper_bound(address);
    if (next == device.begin()) {
        return nullptr;
    }
    --next;
    return address < next->first + next->second.bytes ? &*next : nullptr;
}

CUresult check(const char* call, Address address, size_t bytes) {
    const auto* a = holder(address);
    if (bytes && (!a || bytes > a->first + a->second.bytes - address)) {
        return refuse(CUDA_ERROR_INVALID_VALUE, std::string(call) + ": the range of " + std::to_string(bytes) + " bytes is not inside one allocation");
    }
    return CUDA_SUCCESS;
}

void* pointer(Address address) { return reinterpret_cast<void*>(static_cast<uintptr_t>(address)); }

CUresult copy(void* stream, void* to, const void* from, size_t bytes) {
    return enqueue(stream, [=] {
        memmove(to, from, bytes);
        return CUDA_SUCCESS;
    });
}

template <class T> CUresult fill(const char* call, Address address, T value, size_t count, void* stream) {
    if (address % sizeof(T)) {
        return refuse(CUDA_ERROR_INVALID_VALUE, std::string(call) + ": the address is not aligned");
    }
    if (CUresult refused = check(call, address, count * sizeof(T))) {
        return refused;
    }
    return enqueue(stream, [=] {
        T* p = static_cast<T*>(pointer(address));
        for (size_t i = 0; i < count; i++) {
            p[i] = value;
        }
        return CUDA_SUCCESS;
    });
}

} // namespace

uint64_t memoryUsed() { return used; }

void eachAllocation(const std::function<void(uint64_t address, uint64_t bytes)>& visit) {
    for (const auto& a : device) {
        visit(a.first, a.second.bytes);
    }
}

void forgetMemory() {
    while (!device.empty()) {
        release(device.begin()->first);
    }
    for (const auto& h : host) {
        munmap(h.second.mapping, h.second.mapped);
    }
    host.clear();
    registered.clear();
}

// ------------------------------------------------------------------------------------------------ allocations

CUDASIM_API CUresult cuMemAlloc_v2(Address* address, size_t bytes) {
    CUDASIM_ENTER_UNCAPTURED("cuMemAlloc");
    return allocate("cuMemAlloc", address, bytes);
}

CUDASIM_API CUresult cuMemFree_v2(Address address) {
    CUDASIM_ENTER_UNCAPTURED("cuMemFree");
    if (CUresult failed = drainAll()) {
        return failed;
    }
    return address ? release(address) : CUDA_SUCCESS;
}

CUDASIM_API CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
    CUDASIM_ENTER;
    *total = static_cast<size_t>(options.memory);
    *free = *total - used;
    return CUDA_SUCCESS;
}

CUDASIM_API CUresult cuMemGetAddressRange_v2(Address* base, size_t* bytes, Address address) {
    CUDASIM_ENTER;
    const auto* a = holder(address);
    if (!a) {
        return refuse(CUDA_ERROR_INVALID_VALUE, "cuMemGetAddressRange: no allocation there");
    }
    if (base) {
        *base = a->first;
    }
    if (bytes) {
        *bytes = a->second.bytes;
    }
    return CUDA_SUCCESS;
}

CUDASIM_API CUresult cuMemHostAlloc(void** p, size_t bytes, unsigned) {
    CUDASIM_ENTER_UNCAPTURED("cuMemHostAlloc");
    size_t mapped = (bytes + PAGE - 1) / PAGE * PAGE;
    void* m = bytes ? mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) : MAP_FAILED;
    if (m == MAP_FAILED) {
        return refuse(bytes ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE, "cuMemHostAlloc: no room for " + std::to_string(bytes) + " bytes");
    }
    host[reinterpret_cast<uintptr_t>(m)] = {bytes, mapped, m};
    *p = m;
    return CUDA_SUCCESS;
}
CUDASIM_API CUresult cuMemAllocHost_v2(void** p, size_t bytes) { return cuMemHostAlloc(p, bytes, 0); }

CUDASIM_API CUresult cuMemFreeHost(void* p) {
    CUDASIM_ENTER_UNCAPTURED("cuMemFreeHost");
    if (CUresult failed = drainAll()) {
        return failed;
    }
    auto found = host.find(reinterpret_cast<uintptr_t>(p));
    if (found == host.end()) {
        return refuse(CUDA_ERROR_INVALID_VALUE, "cuMemFreeHost: the address begins no allocation");
    }
    munmap(found->second.mapping, found->second.mapped);
    host.erase(found);
    return CUDA_SUCCESS;
}

CUDASIM_API CUresult cuMemHostRegister_v2(void* p, size_t bytes, unsigned) {
    CUDASIM_ENTER_UNCAPTURED("cuMemHostRegister");
    if (!bytes) {
        return refuse(CUDA_ERROR_INVALID_VALUE, "cuMemHostRegister: no bytes");
    }
    if (!registered.emplace(reinterpret_cast<uintptr_t>(p), bytes).second) {
        return refuse(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "cuMemHostRegister: registered already");
    }
    return CUDA_SUCCESS;
}

CUDASIM_API CUresult cuMemHostUnregister(void* p) {
    CUDASIM_ENTER_UNCAPTURED("cuMemHostUnregister");
    if (CUresult failed = drainAll()) {
        return failed;
    }
    return registered.erase(reinterpret_cast<uintptr_t>(p))
        ? CUDA_SUCCESS
        : refuse(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "cuMemHostUnregister: not registered");
}

CUDASIM_API CUresult cuMemHostGetDevicePointer_v2(Address* address, void* p, unsigned) {
    CUDASIM_ENTER;
    *address = reinterpret_cast<uintptr_t>(p);
    return CUDA_SUCCESS;
}

// ------------------------------------------------------------------------------------------------ copies

CUDASIM_API CUresult cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, void* stream) {
    CUDASIM_ENTER;
    if (CUresult refused = check("cuMemcpyHtoDAsync", to, bytes)) {
        return refused;
    }
    return copy(stream, pointer(to), from, bytes);
}

CUDASIM_API CUresult cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, void* stream) {
    CUDASIM_ENTER;
    if (CUresult refused = check("cuMemcpyDtoHAsync", from, bytes)) {
        return refused;
    }
    return copy(stream, to, pointer(from), bytes);
}

CUDASIM_API CUresult cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void* stream) {
    CUDASIM_ENTER;
    if (CUresult refused = check("cuMemcpyDtoDAsync", to, bytes)) {
        return refused;
    }
    if (CUresult refused = check("cuMemcpyDtoDAsync", from, bytes)) {
        return refused;
    }
    return copy(stream, pointer(to), pointer(from), bytes);
}

CUDASIM_API CUresult cuMemcpyHtoD_v2(Address to, const void* from, size_t bytes) {
    CUDASIM_ENTER_UNCAPTURED("cuMemcpyHtoD");
    CUresult result = cuMemcpyHtoDAsync_v2(to, from, bytes, nullptr);
    return result ? result : drain(nullptr);
}

CUDASIM_API CUresult cuMemcpyDtoH_v2(void* to, Address from, size_t bytes) {
    CUDASIM_ENTER_UNCAPTURED("cuMemcpyDtoH");
    CUresult result = cuMemcpyDtoHAsync_v2(to, from, bytes, nullptr);
    return result ? result : drain(nullptr);
}

CUDASIM_API CUresult cuMemcpyDtoD_v2(Address to, Address from, size_t bytes) {
    CUDASIM_ENTER_UNCAPTURED("cuMemcpyDtoD");
    return cuMemcpyDtoDAsync_v2(to, from, bytes, nullptr);
}

CUDASIM_API CUresult cuMemsetD8Async(Address address, unsigned char value, size_t count, void* stream) {
    CUDASIM_ENTER;
    return fill("cuMemsetD8Async", address, value, count, stream);
}
CUDASIM_API CUresult cuMemsetD32Async(Address address, unsigned value, size_t count, void* stream) {
    CUDASIM_ENTER;
    return fill("cuMemsetD32Async", address, value, count, stream);
}
CUDASIM_API CUresult cuMemsetD8_v2(Address address, unsigned char value, size_t count) {
    CUDASIM_ENTER_UNCAPTURED("cuMemsetD8");
    return fill("cuMemsetD8", address, value, count, nullptr);
}
CUDASIM_API CUresult cuMemsetD32_v2(Address address, unsigned value, size_t count) {
    CUDASIM_ENTER_UNCAPTURED("cuMemsetD32");
    return fill("cuMemsetD32", address, value, count, nullptr);
}

} // namespace cudasim
