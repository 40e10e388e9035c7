// Initialization, the device and its attributes, the primary context, errors, and the controls of the emulator.
#include "driver.h"

#include <algorithm>
#include <stdio.h>

namespace cudasim {

Driver driver;

namespace {

char contextHandle; // the address of the primary context; there is no other
constexpr const char* NAME = "Millrace CUDA stand-in (CPU)";

/// Attributes as an H200 has them, by their numbers in cuda.h.
struct Attribute {
    int number, value;
};
constexpr Attribute ATTRIBUTES[] = {
    {1, 1024},        // threads of a block
    {2, 1024},        // block x
    {3, 1024},        // block y
    {4, 64},          // block z
    {5, 2147483647},  // grid x
    {6, 65535},       // grid y
    {7, 65535},       // grid z
    {8, 48 << 10},    // shared bytes of a block
    {9, 65536},       // constant bytes
    {10, 32},         // lanes of a warp
    {11, 2147483647}, // pitch
    {12, 65536},      // registers of a block
    {13, 1980000},    // clock, kHz
    {14, 512},        // texture alignment
    {16, 132},        // multiprocessors
    {19, 1},          // maps host memory
    {31, 1},          // concurrent kernels
    {36, 3201000},    // memory clock, kHz
    {37, 6144},       // memory bus, bits
    {38, 60 << 20},   // second-level cache
    {39, 2048},       // threads of a multiprocessor
    {40, 3},          // copy engines
    {41, 1},          // unified addressing
    {75, 9},          // compute capability, major
    {76, 0},          // and minor
    {78, 1},          // stream priorities
    {81, 228 << 10},  // shared bytes of a multiprocessor
    {82, 65536},      // registers of a multiprocessor
    {106, 32},        // blocks of a multiprocessor
    {111, 1 << 10},   // shared bytes that a block's reservation takes
    {115, 1},         // memory pools
};

struct ErrorName {
    CUresult code;
    const char *name, *text;
};
constexpr ErrorName ERRORS[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the memory is registered"},
    {CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "the memory is not registered"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when a stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
};

const ErrorName* findError(int code) {
    for (const ErrorName& e : ERRORS) {
        if (e.code == code) {
            return &e;
        }
    }
    return nullptr;
}

struct Option {
    const char* name;
    int64_t Options::*field;
    int64_t least, most;
};
constexpr Option OPTIONS[] = {
    {"threads", &Options::threads, 1, 64},
    {"schedule", &Options::schedule, FORWARD, SHUFFLED},
    {"seed", &Options::seed, INT64_MIN, INT64_MAX},
    {"landing", &Options::landing, LATE, MIXED},
    {"lazy", &Options::lazy, 0, 1},
    {"guard", &Options::guard, 0, 1},
    {"poison", &Options::poison, 0, 1},
    {"memory", &Options::memory, 0, INT64_MAX},
    {"shared", &Options::shared, 1 << 10, 227 << 10},
    {"truncate", &Options::truncate, 0, 1},
    {"fault", &Options::fault, 0, INT64_MAX},
    {"textOnly", &Options::textOnly, 0, 1},
    {"log", &Options::log, 0, 1},
};

void endContext() {
    forgetStreams();
    forgetModules();
    forgetMemory();
}

} // namespace

CUresult refuse(CUresult result, const std::string& message) {
    driver.message = message;
    driver.messageCode = result;
    if (options.log) {
        fprintf(stderr, "%s: %s\n", NAME, message.c_str());
    }
    return result;
}

CUresult entry() {
    if (!driver.initialized) {
        return refuse(CUDA_ERROR_NOT_INITIALIZED, "cuInit was not called");
    }
    if (driver.sticky) {
        return driver.sticky; // the message stays that of the failure
    }
    if (!own.context) {
        return refuse(CUDA_ERROR_INVALID_CONTEXT, "this thread has no current context");
    }
    return CUDA_SUCCESS;
}

CUresult entryUncaptured(const char* call) {
    if (CUresult refused = entry()) {
        return refused;
    }
    if (driver.capturing || own.capturing) {
        return refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, std::string(call) + " is not permitted while a stream captures");
    }
    return CUDA_SUCCESS;
}

// ------------------------------------------------------------------------------------------------ the device

CUDASIM_API CUresult cuInit(unsigned flags) {
    Lock lock(driver.mutex);
    if (flags) {
        return refuse(CUDA_ERROR_INVALID_VALUE, "cuInit: flags must be 0");
    }
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        return refuse(CUDA_ERROR_NO_DEVICE, "the stand-in needs a processor with AVX2 and FMA");
    }
#endif
    if (!driver.initialized) {
        driver.initialized = true;
        catchFaults();
    }
    return CUDA_SUCCESS;
}

CUDASIM_API CUresult cuDriverGetVersion(int* version) {
    *version = 12000; // the API that is here
    return CUDA_SUCCESS;
}

CUDASIM_API CUresult cuDeviceGetCount(int* count) {
    *count = 1;
    return driver.initialized ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUDASIM_API CUresult cuDeviceGet(int* device, int ordinal) {
    if (!driver.initialized) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    if (ordinal != 0) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *device = 0;
    return CUDA_SUCCESS;
}

CUDASIM_API CUresult cuDeviceGetName(char* name, int length, int) {
    snprintf(name, static_cast<size_t>(length), "%s", NAME);
    return CUDA_SUCCESS;
}

CUDASIM_API CUresult cuDeviceGetUuid(void* uuid, int) {
    memcpy(uuid, "millrace-standin", 16);
    return CUDA_SUCCESS;
}
CUDASIM_API CUresult cuDeviceGetUuid_v2(void* uuid, int device) { return cuDeviceGetUuid(uuid, device); }

CUDASIM_API CUresult cuDeviceGetPCIBusId(char* id, int length, int) {
    snprintf(id, static_cast<size_t>(length), "0000:00:00.0");
    return CUDA_SUCCESS;
}

CUDASIM_API CUresult cuDeviceTotalMem_v2(size_t* bytes, int) {
    *bytes = static_cast<size_t>(options.memory);
    return CUDA_SUCCESS;
}

CUDASIM_API CUresult cuDeviceGetAttribute(int* value, int attribute, int) {
    // Shared bytes of a block that asks for them.
    *value = attribute == 97 ? static_cast<int>(options.shared) : 0;
    for (const Attribute& a : ATTRIBUTES) {
        if (a.number == attribute) {
            *value = a.value;
        }
    }
    return CUDA_SUCCESS;
}

CUDASIM_API CUresult cuDeviceComputeCapability(int* major, int* minor, int) {
    *major = 9;
    *minor = 0;
    return CUDA_SUCCESS;
}

// ------------------------------------------------------------------------------------------------ the context

CUDASIM_API CUresult cuDevicePrimaryCtxRetain(void** context, int) {
    Lock lock(driver.mutex);
    if (!driver.initialized) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    driver.contextUsers++;
    *context = &contextHandle;
    return CUDA_SUCCESS;
}

CUDASIM_API CUresult cuDevicePrimaryCtxRelease_v2(int) {
    Lock lock(driver.mutex);
    if (driver.contextUsers == 0) {
        return refuse(CUDA_ERROR_INVALID_CONTEXT, "cuDevicePrimaryCtxRelease: nobody retains it");
    }
    if (--driver.contextUsers == 0) {
        endContext();
    }
    return CUDA_SUCCESS;
}
CUDASIM_API CUresult cuDevicePrimaryCtxRelease(int device) { return cuDevicePrimaryCtxRelease_v2(device); }

CUDASIM_API CUresult cuDevicePrimaryCtxReset_v2(int) {
    Lock lock(driver.mutex);
    endContext();
    return driver.sticky;
}
CUDASIM_API CUresult cuDevicePrimaryCtxReset(int device) { return cuDevicePrimaryCtxReset_v2(device); }

CUDASIM_API CUresult cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active) {
    *flags = 0;
    *active = driver.contextUsers > 0;
    return CUDA_SUCCESS;
}
CUDASIM_API CUresult cuDevicePrimaryCtxSetFlags_v2(int, unsigned) { return CUDA_SUCCESS; }
CUDASIM_API CUresult cuDevicePrimaryCtxSetFlags(int, unsigned) { return CUDA_SUCCESS; }

CUDASIM_API CUresult cuCtxCreate_v2(void** context, unsigned, int device) {
    CUresult result = cuDevicePrimaryCtxRetain(context, device);
    own.context = result ? own.context : *context;
    return result;
}
CUDASIM_API CUresult cuCtxDestroy_v2(void*) {
    own.context = nullptr;
    return cuDevicePrimaryCtxRelease_v2(0);
}
CUDASIM_API CUresult cuCtxSetCurrent(void* context) {
    if (context && context != &contextHandle) {
        return refuse(CUDA_ERROR_INVALID_CONTEXT, "cuCtxSetCurrent: no context of this library");
    }
    own.context = context;
    return CUDA_SUCCESS;
}
CUDASIM_API CUresult cuCtxGetCurrent(void** context) {
    *context = own.context;
    return CUDA_SUCCESS;
}
CUDASIM_API CUresult cuCtxPushCurrent_v2(void* context) { return cuCtxSetCurrent(context); }
CUDASIM_API CUresult cuCtxPopCurrent_v2(void** context) {
    if (context) {
        *context = own.context;
    }
    own.context = nullptr;
    return CUDA_SUCCESS;
}
CUDASIM_API CUresult cuCtxGetDevice(int* device) {
    *device = 0;
    return own.context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
CUDASIM_API CUresult cuCtxSynchronize() {
    CUDASIM_ENTER_UNCAPTURED("cuCtxSynchronize");
    return drainAll();
}
CUDASIM_API CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    *least = 0;
    *greatest = -5;
    return CUDA_SUCCESS;
}

// ------------------------------------------------------------------------------------------------ errors

CUDASIM_API CUresult cuGetErrorName(CUresult code, const char** name) {
    const ErrorName* e = findError(code);
    *name = e ? e->name : nullptr;
    return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/// The driver's words for the code; and for the code of the last failure what the emulator knows of it.
CUDASIM_API CUresult cuGetErrorString(CUresult code, const char** text) {
    static std::string words;
    Lock lock(driver.mutex);
    const ErrorName* e = findError(code);
    *text = e ? e->text : nullptr;
    if (e && code && code == driver.messageCode && !driver.message.empty()) {
        words = std::string(e->text) + ": " + driver.message;
        *text = words.c_str();
    }
    return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// ------------------------------------------------------------------------------------------------ controls

/// What tells this library from a driver.
CUDASIM_API const char millrace_cuda_standin[] = "Millrace CUDA stand-in";

/// Copies the last failure in words, at most `length` bytes with the NUL; returns its whole length.
CUDASIM_API int64_t millrace_cudasim_message(char* out, int64_t length) {
    Lock lock(driver.mutex);
    if (length > 0) {
        size_t n = std::min(driver.message.size(), static_cast<size_t>(length) - 1);
        memcpy(out, driver.message.data(), n);
        out[n] = 0;
    }
    return static_cast<int64_t>(driver.message.size());
}

/// Changes an option; its old value, or INT64_MIN where there is none of that name or the value is out of its range.
CUDASIM_API int64_t millrace_cudasim_set(const char* name, int64_t value) {
    Lock lock(driver.mutex);
    for (const Option& o : OPTIONS) {
        if (!strcmp(o.name, name) && value >= o.least && value <= o.most) {
            int64_t old = options.*o.field;
            options.*o.field = value;
            return old;
        }
    }
    return INT64_MIN;
}

/// A figure: blocks run, switches between fibers, bytes of device memory in use; -1 where there is none of that name.
CUDASIM_API int64_t millrace_cudasim_count(const char* name) {
    Lock lock(driver.mutex);
    if (!strcmp(name, "blocks")) {
        return static_cast<int64_t>(blocksRun());
    }
    if (!strcmp(name, "switches")) {
        return static_cast<int64_t>(switches());
    }
    if (!strcmp(name, "bytes")) {
        return static_cast<int64_t>(memoryUsed());
    }
    return -1;
}

/// What the next process would find: no sticky error, no memory, no module. No handle from before may be used again.
CUDASIM_API void millrace_cudasim_reset() {
    Lock lock(driver.mutex);
    endContext();
    driver.sticky = CUDA_SUCCESS;
    driver.message.clear();
    driver.messageCode = CUDA_SUCCESS;
    driver.contextUsers = 0;
}

} // namespace cudasim
