// The CUDA driver API over the emulated device: what the parts of the stand-in library share.
#pragma once
#include "device.h"

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#define CUDASIM_API extern "C" __attribute__((visibility("default")))

namespace cudasim {

/// Those of cuda.h that are used here.
enum CUresult : int {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_INVALID_IMAGE = 200,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_INVALID_PTX = 218,
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
    CUDA_ERROR_INVALID_HANDLE = 400,
    CUDA_ERROR_NOT_FOUND = 500,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_ILLEGAL_ADDRESS = 700,
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
    CUDA_ERROR_LAUNCH_FAILED = 719,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
};

/// One thing that a stream does.
using Work = std::function<CUresult()>;

struct Driver {
    std::recursive_mutex mutex; // every call holds it, so work runs one piece at a time
    bool initialized = false;
    int contextUsers = 0;
    CUresult sticky = CUDA_SUCCESS; // a failed launch is reported by every call after it
    std::string message;            // the last failure, in words
    CUresult messageCode = CUDA_SUCCESS;
    int capturing = 0;              // streams that capture, and so forbid some calls to all threads
};
extern Driver driver;

using Lock = std::lock_guard<std::recursive_mutex>;

/// Notes why, and returns the result.
CUresult refuse(CUresult result, const std::string& message);

/// What holds before every call but the first few; a result other than success is returned to the caller at once.
CUresult entry();
#define CUDASIM_ENTER                             \
    Lock lock(driver.mutex);                      \
    if (CUresult refused = entry(); refused != 0) \
        return refused

/// The same for calls that a capture does not permit.
CUresult entryUncaptured(const char* call);
#define CUDASIM_ENTER_UNCAPTURED(call)                            \
    Lock lock(driver.mutex);                                      \
    if (CUresult refused = entryUncaptured(call); refused != 0)   \
        return refused

/// Puts work behind what the stream has, runs it at once where streams are not lazy.
CUresult enqueue(void* stream, Work work);
CUresult drain(void* stream);
CUresult drainAll();

/// Forgets streams, graphs and their work; memory and modules: what the end of a context does.
void forgetStreams();
void forgetMemory();
void forgetModules();

uint64_t memoryUsed();
void eachAllocation(const std::function<void(uint64_t address, uint64_t bytes)>& visit);

/// Writes a launch and the memory that it finds to a file, where launches are recorded: see driver_record.cpp.
///
/// @return the file, empty where nothing was recorded
std::string record(const Launch& launch, const std::vector<char>& arguments);

/// Where an allocation should lie, so that a replay finds the same place free; null for anywhere.
void* recordingAddress(size_t mapped);

constexpr char RECORD_MAGIC[] = "millrace launch 1\n";
constexpr uint64_t RECORD_CHUNK = 16 << 10;
constexpr uint64_t RECORD_FRESH = 1ull << 62;

} // namespace cudasim
