package millrace.engine.kernel.cuda;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.List;
import java.util.stream.Stream;
import jcuda.driver.CUjit_option;
import jcuda.driver.CUmodule;
import jcuda.driver.CUresult;
import jcuda.driver.JCudaDriver;
import millrace.engine.BackendException;
import millrace.engine.CudaConfig;
import millrace.engine.kernel.PrivateFile;

/// The kernels in one of the forms that the jar has: machine code with PTX, or PTX alone.
record KernelImage(String name, byte[] bytes) {
    private static final String FATBIN = "millrace.fatbin";
    private static final String PTX = "millrace.ptx";

    /// Where the driver's compiler of PTX writes what it has against it.
    private static final int[] LOG_OPTIONS = {
        CUjit_option.CU_JIT_ERROR_LOG_BUFFER, CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
    };

    private static final long LOG_BYTES = 4096;
    private static final int MOST_SHOWN = 400;

    /// Those that a configuration allows, the best first.
    ///
    /// @throws BackendException `CUDA_NO_KERNELS` if there is none
    static List<KernelImage> of(CudaConfig config) {
        List<String> names = config.image() == null ? List.of(FATBIN, PTX) : List.of(config.image());
        List<KernelImage> images = names.stream().flatMap(KernelImage::of).toList();
        if (images.isEmpty()) {
            throw CudaProbe.refused(
                    "CUDA_NO_KERNELS",
                    "expected " + names.getLast() + " in the jar, got none: it was built with -Dcuda.skip",
                    "build again without it, or set engine.backend to auto");
        }
        return images;
    }

    private static Stream<KernelImage> of(String name) {
        byte[] bytes = CudaLibraries.resource(name);
        return bytes == null ? Stream.empty() : Stream.of(new KernelImage(name, bytes));
    }

    /// Loads the first image that the driver takes. A driver that is older than the compiler of machine code does not know
    /// its form, and refuses the PTX beside it, too; PTX alone it compiles by itself.
    ///
    /// @return which it was
    static KernelImage load(List<KernelImage> images, CUmodule module, Faults faults) {
        for (KernelImage image : images) {
            try (Arena arena = Arena.ofConfined()) {
                // PTX is text and ends with a NUL, which does no harm behind the others.
                MemorySegment bytes = arena.allocate(image.bytes.length + 1L).copyFrom(MemorySegment.ofArray(image.bytes));
                MemorySegment log = arena.allocate(LOG_BYTES + 1);
                MemorySegment values = arena.allocateFrom(ValueLayout.JAVA_LONG, log.address(), LOG_BYTES);
                int result = JCudaDriver.cuModuleLoadDataEx(
                        module, Addresses.host(bytes), LOG_OPTIONS.length, LOG_OPTIONS, Addresses.host(values));
                if (!isNotKnown(result) || image == images.getLast()) {
                    faults.check(result, "cuModuleLoadDataEx " + image.name, line(log.getString(0)));
                    return image;
                }
            }
        }
        throw new IllegalArgumentException("gpu: expected an image of the kernels, got none");
    }

    /// The log of the driver's compiler, in one line that an error message has room for.
    private static String line(String log) {
        String line = log.strip().replaceAll("[\\p{Cntrl}\\s]+", " ");
        return line.length() <= MOST_SHOWN ? line : line.substring(0, MOST_SHOWN) + "…";
    }

    /// Whether a driver says that it can make nothing of an image, in one of the ways that it has for that.
    private static boolean isNotKnown(int result) {
        return switch (result) {
            case CUresult.CUDA_ERROR_INVALID_IMAGE,
                    CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU,
                    CUresult.CUDA_ERROR_INVALID_PTX,
                    CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
                    CUresult.CUDA_ERROR_INVALID_SOURCE ->
                true;
            default -> false;
        };
    }

    /// SHA-256, hexadecimal.
    String digest() {
        return PrivateFile.sha256(bytes);
    }
}
