package millrace.engine.kernel.cuda;

import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
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
            // PTX is text and ends with a NUL, which does no harm behind the others.
            byte[] bytes = Arrays.copyOf(image.bytes, image.bytes.length + 1);
            int result = JCudaDriver.cuModuleLoadData(module, bytes);
            if (!isNotKnown(result) || image == images.getLast()) {
                faults.check(result, "cuModuleLoadData " + image.name);
                return image;
            }
        }
        throw new IllegalArgumentException("gpu: expected an image of the kernels, got none");
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
