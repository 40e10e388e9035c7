// Runs one kernel without a driver: what tests of the emulator call.
#include "emulator/driver.h"

/// @return 0, or 1 where the launch failed and 2 where it touched an address that is not its own
CUDASIM_API int planted_run(const char* name, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY, unsigned blockZ,
                            uint64_t sharedBytes, void* const* arguments, char* message) {
    const cudasim::Kernel* kernel = cudasim::findKernel(name);
    if (!kernel) {
        snprintf(message, cudasim::MESSAGE_BYTES, "no kernel %s", name);
        return -1;
    }
    cudasim::catchFaults();
    message[0] = 0;
    cudasim::Launch launch{kernel, dim3(gridX, gridY, gridZ), dim3(blockX, blockY, blockZ), sharedBytes, arguments};
    return cudasim::run(launch, message);
}
