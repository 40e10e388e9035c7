package millrace.engine;

/// What kernels compute on where that is not the processor itself, as facts for the start-up story and every attestation.
///
/// @param name as the driver tells it; empty on the processor
/// @param capability compute capability, for example `9.0`: devices of one profile, one capability and one image give
///        equal bits
/// @param driver the CUDA version that the driver supports, for example `12.8`
/// @param imageSha256 SHA-256 of the image of all kernels as handed to the driver, 64 hexadecimal digits
/// @param standIn whether it is no device but the stand-in, which runs the kernels on the processor for development
public record Device(String name, String capability, String driver, String imageSha256, boolean standIn) {
    /// No device: the processor computes.
    public static final Device PROCESSOR = new Device("", "", "", "", false);

    public boolean isProcessor() {
        return name.isEmpty();
    }

    /// One line of the start-up story.
    public String describe() {
        return name + ", compute capability " + capability + ", driver " + driver + ", kernels sha256:" + imageSha256;
    }
}
