// Modules, their functions, and launches.
#include "driver.h"

#include <map>
#include <stdio.h>
#include <stdlib.h>

namespace cudasim {

namespace {

constexpr int SHARED_LIMIT = 48 << 10;

struct Function {
    const Kernel* kernel;
    int maxDynamic = SHARED_LIMIT;
};

struct Module {
    std::string ptx; // empty where the image has none that is not compressed
    std::map<std::string, std::unique_ptr<Function>> functions;
};

std::map<Module*, std::unique_ptr<Module>> modules;

bool known(const void* function) {
    for (const auto& m : modules) {
        for (const auto& f : m.second->functions) {
            if (f.second.get() == function) {
                return true;
            }
        }
    }
    return false;
}

bool startsWith(const unsigned char* image, unsigned a, unsigned b, unsigned c, unsigned d) {
    return image[0] == a && image[1] == b && image[2] == c && image[3] == d;
}

/// The PTX of a fat binary that was made without compression: text between NULs or the end.
std::string ptxOf(const unsigned char* fat) {
    uint16_t headerBytes;
    uint64_t bodyBytes;
    memcpy(&headerBytes, fat + 6, sizeof headerBytes);
    memcpy(&bodyBytes, fat + 8, sizeof bodyBytes);
    std::string all(reinterpret_cast<const char*>(fat), headerBytes + bodyBytes);
    size_t version = all.find(".version ");
    return version == std::string::npos ? std::string() : all.substr(version, all.find('\0', version) - version);
}

/// The sizes of an entry's parameters in PTX; false where it is not there.
bool parameterSizes(const std::string& ptx, const std::string& name, std::vector<uint32_t>& sizes) {
    std::string key = ".entry " + name;
    size_t at = 0;
    while ((at = ptx.find(key, at)) != std::string::npos && !strchr("( \t\n{", ptx[at + key.size()])) {
        at++;
    }
    if (at == std::string::npos) {
        return false;
    }
    size_t open = ptx.find_first_not_of(" \t\n", at + key.size());
    if (open == std::string::npos || ptx[open] != '(') {
        return true;
    }
    // `.param .u64 name`, or `.param .align 4 .b8 name[20]`
    size_t end = ptx.find(')', open);
    while ((at = ptx.find(".param", open)) < end) {
        size_t next = ptx.find_first_of(",)", at);
        size_t bracket = ptx.find('[', at);
        if (bracket < next) {
            sizes.push_back(static_cast<uint32_t>(atoi(ptx.c_str() + bracket + 1)));
        } else {
            size_t type = ptx.find('.', at + 6);
            sizes.push_back(static_cast<uint32_t>(atoi(ptx.c_str() + type + 2)) / 8);
        }
        open = next;
    }
    return true;
}

/// Options of a load by their numbers in cuda.h.
constexpr int ERROR_LOG = 5, ERROR_LOG_BYTES = 6;

/// Where a load wants to be told what the compiler of PTX has against it.
struct Log {
    char* text = nullptr;
    size_t bytes = 0;
    void** written = nullptr;

    Log(unsigned count, const int* names, void** values) {
        for (unsigned i = 0; i < count; i++) {
            if (names[i] == ERROR_LOG) {
                text = static_cast<char*>(values[i]);
            } else if (names[i] == ERROR_LOG_BYTES) {
                bytes = reinterpret_cast<size_t>(values[i]);
                written = &values[i];
            }
        }
    }

    void write(const std::string& said) const {
        if (text && bytes) {
            size_t n = said.size() < bytes ? said.size() : bytes - 1;
            memcpy(text, said.data(), n);
            text[n] = 0;
            *written = reinterpret_cast<void*>(n + 1);
        }
    }
};

/// Whether PTX is of a version that a driver of CUDA 12.0 knows: 8.0 and before.
bool knownVersion(const std::string& version) {
    double number = strtod(version.c_str(), nullptr);
    return number > 0 && number <= 8.0;
}

CUresult load(void** out, const void* image, const Log& log) {
    const unsigned char* bytes = static_cast<const unsigned char*>(image);
    auto module = std::make_unique<Module>();
    bool fat = startsWith(bytes, 0x50, 0xed, 0x55, 0xba);
    bool code = startsWith(bytes, 0x7f, 'E', 'L', 'F');
    if (options.textOnly && (fat || code)) {
        return refuse(CUDA_ERROR_INVALID_IMAGE, "cuModuleLoadData: code of a form that is not known here");
    }
    if (fat) {
        module->ptx = ptxOf(bytes);
    } else if (!code) {
        module->ptx = reinterpret_cast<const char*>(image);
        size_t at = module->ptx.find(".version ");
        if (at == std::string::npos) {
            return refuse(CUDA_ERROR_INVALID_IMAGE, "cuModuleLoadData: the image is neither PTX nor a cubin nor a fat binary");
        }
        at += strlen(".version ");
        std::string version = module->ptx.substr(at, module->ptx.find('\n', at) - at);
        if (!knownVersion(version)) {
            log.write("ptxas application ptx input, line 1; fatal   : Unsupported .version " + version + "; current version is '8.0'\n"
                      "ptxas fatal   : Ptx assembly aborted due to errors");
            return refuse(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "cuModuleLoadData: PTX that is newer than this driver");
        }
    }
    Module* m = module.get();
    modules[m] = std::move(module);
    *out = m;
    return CUDA_SUCCESS;
}

/// The arguments of a launch, copied when it is asked for, as the driver does.
struct Arguments {
    std::vector<char> bytes;
    std::vector<size_t> offsets;

    explicit Arguments(const Kernel& kernel) {
        size_t at = 0;
        for (unsigned i = 0; i < kernel.parameters; i++) {
            size_t aligned = kernel.sizes[i] % 8 == 0 ? 8 : kernel.sizes[i] % 4 == 0 ? 4 : kernel.sizes[i] % 2 == 0 ? 2 : 1;
            at = (at + aligned - 1) / aligned * aligned;
            offsets.push_back(at);
            at += kernel.sizes[i];
        }
        bytes.resize(at);
    }

    /// A driver cannot tell how many arguments it is given. Those of Millrace end with a null, see Launch.java.
    CUresult take(const Kernel& kernel, void** parameters, void** extra) {
        if (parameters) {
            unsigned given = 0;
            while (given <= kernel.parameters && parameters[given]) {
                given++;
            }
            if (given != kernel.parameters) {
                return refuse(CUDA_ERROR_INVALID_VALUE, std::string(kernel.name) + ": expected " + std::to_string(kernel.parameters)
                                  + " arguments, got " + (given > kernel.parameters ? "more" : std::to_string(given)));
            }
            for (unsigned i = 0; i < kernel.parameters; i++) {
                memcpy(bytes.data() + offsets[i], parameters[i], kernel.sizes[i]);
            }
            return CUDA_SUCCESS;
        }
        const void* buffer = nullptr;
        size_t size = 0;
        for (unsigned i = 0; extra && extra[i]; i += 2) {
            if (reinterpret_cast<uintptr_t>(extra[i]) == 1) {
                buffer = extra[i + 1];
            } else if (reinterpret_cast<uintptr_t>(extra[i]) == 2) {
                size = *static_cast<const size_t*>(extra[i + 1]);
            }
        }
        if (!bytes.empty() && (!buffer || size < bytes.size())) {
            return refuse(CUDA_ERROR_INVALID_VALUE, std::string(kernel.name) + ": " + std::to_string(size) + " bytes of arguments given, "
                              + std::to_string(bytes.size()) + " needed");
        }
        memcpy(bytes.data(), buffer, bytes.size());
        return CUDA_SUCCESS;
    }
};

} // namespace

void forgetModules() { modules.clear(); }

CUDASIM_API CUresult cuModuleLoadData(void** module, const void* image) {
    CUDASIM_ENTER_UNCAPTURED("cuModuleLoadData");
    return load(module, image, Log(0, nullptr, nullptr));
}
CUDASIM_API CUresult cuModuleLoadDataEx(void** module, const void* image, unsigned count, int* options, void** values) {
    CUDASIM_ENTER_UNCAPTURED("cuModuleLoadDataEx");
    return load(module, image, Log(count, options, values));
}
CUDASIM_API CUresult cuModuleLoadFatBinary(void** module, const void* image) { return cuModuleLoadData(module, image); }

CUDASIM_API CUresult cuModuleUnload(void* module) {
    CUDASIM_ENTER_UNCAPTURED("cuModuleUnload");
    CUresult result = drainAll();
    if (!modules.erase(static_cast<Module*>(module))) {
        return refuse(CUDA_ERROR_INVALID_HANDLE, "cuModuleUnload: no module of this library");
    }
    return result;
}

CUDASIM_API CUresult cuModuleGetFunction(void** function, void* module, const char* name) {
    CUDASIM_ENTER;
    auto found = modules.find(static_cast<Module*>(module));
    if (found == modules.end()) {
        return refuse(CUDA_ERROR_INVALID_HANDLE, "cuModuleGetFunction: no module of this library");
    }
    Module& m = *found->second;
    auto& slot = m.functions[name];
    if (!slot) {
        const Kernel* kernel = findKernel(name);
        std::vector<uint32_t> sizes;
        if (!m.ptx.empty() && !parameterSizes(m.ptx, name, sizes)) {
            m.functions.erase(name);
            return refuse(CUDA_ERROR_NOT_FOUND, std::string(name) + ": not in the module's image");
        }
        if (!kernel) {
            m.functions.erase(name);
            return refuse(CUDA_ERROR_NOT_FOUND, std::string(name) + ": not among the kernels of the stand-in library");
        }
        if (!m.ptx.empty() && sizes != std::vector<uint32_t>(kernel->sizes, kernel->sizes + kernel->parameters)) {
            m.functions.erase(name);
            return refuse(CUDA_ERROR_INVALID_IMAGE, std::string(name) + ": its parameters in the image are not those of the stand-in library; one of the two is stale");
        }
        slot = std::make_unique<Function>();
        slot->kernel = kernel;
    }
    *function = slot.get();
    return CUDA_SUCCESS;
}

CUDASIM_API CUresult cuFuncSetAttribute(void* function, int attribute, int value) {
    CUDASIM_ENTER;
    if (!known(function)) {
        return refuse(CUDA_ERROR_INVALID_HANDLE, "cuFuncSetAttribute: no function of this library");
    }
    if (attribute == 8) { // the most dynamic shared memory
        if (value < 0 || value > options.shared) {
            return refuse(CUDA_ERROR_INVALID_VALUE, std::string(static_cast<Function*>(function)->kernel->name) + ": a block has at most " + std::to_string(options.shared) + " bytes of shared memory");
        }
        static_cast<Function*>(function)->maxDynamic = value;
    }
    return CUDA_SUCCESS;
}

CUDASIM_API CUresult cuFuncGetAttribute(int* value, int attribute, void* function) {
    CUDASIM_ENTER;
    if (!known(function)) {
        return refuse(CUDA_ERROR_INVALID_HANDLE, "cuFuncGetAttribute: no function of this library");
    }
    switch (attribute) {
        case 0: *value = static_cast<int>(MAX_THREADS); break; // threads of a block
        case 4: *value = 32; break;                            // registers
        case 5: *value = 80; break;                            // PTX version
        case 6: *value = 90; break;                            // binary version
        case 8: *value = static_cast<Function*>(function)->maxDynamic; break;
        default: *value = 0;
    }
    return CUDA_SUCCESS;
}
CUDASIM_API CUresult cuFuncSetCacheConfig(void*, int) { return entry(); }

CUDASIM_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int threads, size_t dynamicBytes) {
    CUDASIM_ENTER;
    int byThreads = 2048 / (threads < 1 ? 1 : threads);
    int byShared = static_cast<int>((228u << 10) / (dynamicBytes + 1024));
    *blocks = byThreads < byShared ? byThreads : byShared;
    *blocks = *blocks > 32 ? 32 : *blocks;
    return CUDA_SUCCESS;
}

CUDASIM_API CUresult cuLaunchKernel(void* function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY,
                                    unsigned blockZ, unsigned dynamicBytes, void* stream, void** parameters, void** extra) {
    CUDASIM_ENTER;
    if (!known(function)) {
        return refuse(CUDA_ERROR_INVALID_HANDLE, "cuLaunchKernel: no function of this library");
    }
    const Function& f = *static_cast<Function*>(function);
    const Kernel* kernel = f.kernel;
    uint64_t threads = static_cast<uint64_t>(blockX) * blockY * blockZ;
    if (!gridX || !gridY || !gridZ || gridX > INT32_MAX || gridY > 65535 || gridZ > 65535 || !threads || threads > MAX_THREADS || blockZ > 64) {
        return refuse(CUDA_ERROR_INVALID_VALUE, std::string(kernel->name) + ": a grid of (" + std::to_string(gridX) + "," + std::to_string(gridY) + ","
                          + std::to_string(gridZ) + ") blocks of (" + std::to_string(blockX) + "," + std::to_string(blockY) + "," + std::to_string(blockZ)
                          + ") threads is not possible: blocks are at most (2147483647,65535,65535), threads of a block 1024");
    }
    if (static_cast<int64_t>(dynamicBytes) > f.maxDynamic) {
        return refuse(CUDA_ERROR_INVALID_VALUE, std::string(kernel->name) + ": " + std::to_string(dynamicBytes) + " bytes of dynamic shared memory, allowed are "
                          + std::to_string(f.maxDynamic) + " (cuFuncSetAttribute raises it to " + std::to_string(options.shared) + ")");
    }
    auto arguments = std::make_shared<Arguments>(*kernel);
    if (CUresult refused = arguments->take(*kernel, parameters, extra)) {
        return refused;
    }
    return enqueue(stream, [=] {
        if (options.fault && --options.fault == 0) {
            return refuse(CUDA_ERROR_LAUNCH_FAILED, std::string("kernel ") + kernel->name + ": the fault that was asked for");
        }
        void* pointers[128];
        for (unsigned i = 0; i < kernel->parameters; i++) {
            pointers[i] = arguments->bytes.data() + arguments->offsets[i];
        }
        char message[MESSAGE_BYTES] = "";
        Launch launch{kernel, dim3(gridX, gridY, gridZ), dim3(blockX, blockY, blockZ), dynamicBytes, pointers};
        std::string recorded = record(launch, arguments->bytes);
        Outcome outcome = run(launch, message);
        if (outcome != DONE) {
            remove(recorded.c_str()); // a test that wants it so, and no news for a sanitizer
        }
        switch (outcome) {
            case DONE: return CUDA_SUCCESS;
            case BAD_ADDRESS: return refuse(CUDA_ERROR_ILLEGAL_ADDRESS, message);
            default: return refuse(CUDA_ERROR_LAUNCH_FAILED, message);
        }
    });
}

} // namespace cudasim
