package millrace.engine;

import millrace.engine.kernel.cuda.DeviceBandwidth;

/// How fast the memory is that a backend reads: the limit beside which its figures stand.
public interface Bandwidth extends AutoCloseable {
    /// Measures it once.
    double bytesPerSecond();

    @Override
    void close();

    /// A plain read loop over the machine's memory; needs the module jdk.incubator.vector.
    ///
    /// @param threads 0 takes one per processor
    /// @param bytes to read each time: far more than the caches hold
    static Bandwidth ofMemory(int threads, long bytes) {
        return new ReadBandwidth(threads, bytes);
    }

    /// Copies within a device, bytes read and bytes written.
    ///
    /// @throws BackendException for a device that cannot be had
    static Bandwidth ofDevice(CudaConfig config) {
        var device = new DeviceBandwidth(config);
        return new Bandwidth() {
            @Override
            public double bytesPerSecond() {
                return device.bytesPerSecond();
            }

            @Override
            public void close() {
                device.close();
            }
        };
    }
}
