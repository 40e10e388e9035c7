package millrace.engine.kernel.cuda;

import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;
import jcuda.Pointer;
import jcuda.driver.CUcontext;
import jcuda.driver.CUdevice;
import jcuda.driver.CUdevice_attribute;
import jcuda.driver.CUdeviceptr;
import jcuda.driver.CUfunction;
import jcuda.driver.CUfunction_attribute;
import jcuda.driver.CUgraph;
import jcuda.driver.CUgraphExec;
import jcuda.driver.CUmodule;
import jcuda.driver.CUstream;
import jcuda.driver.CUstreamCaptureMode;
import jcuda.driver.CUstream_flags;
import jcuda.driver.JCudaDriver;
import millrace.engine.CudaConfig;
import millrace.engine.DeviceException;
import org.jspecify.annotations.Nullable;

/// One device: its context, its memory, its kernels, and one stream on which everything happens in order.
///
/// Threads. A context belongs to a thread at a time, so that every call first makes it the caller's, and holds a lock while
/// it talks to the driver. One platform thread is the owner, see [#own]: the one that computes. It alone uses the prepared
/// launches; another thread gets a launch of its own. Who needs several calls in a row with nothing of others in between
/// puts them into [#exclusively]. Virtual threads are refused: a call into the driver would hold their carrier.
///
/// Order. There is one stream, which does not wait for the driver's default one; only calls that are queued on it are used.
/// Work that was queued fails later: the failure is thrown by a later call, as a [DeviceException].
public final class Gpu implements AutoCloseable {
    /// What is left of free memory to the driver, whose kernels and graphs take some of it: a tenth, but no more than they
    /// can need.
    private static final int SHARE_LEFT = 10;
    private static final long MOST_LEFT = 2L << 30;

    private static final int HOST_FLAGS = 0;

    /// The device whose context each thread has.
    private static final ThreadLocal<Gpu[]> CURRENT = ThreadLocal.withInitial(() -> new Gpu[1]);

    private final CudaDevice device;
    private final Faults faults;
    private final ReentrantLock lock = new ReentrantLock();
    private final CUdevice handle = new CUdevice();
    private final CUcontext context = new CUcontext();
    private final CUmodule module = new CUmodule();
    private final CUstream stream = new CUstream();
    private final int sharedBytes;
    private final String imageName;
    private final String imageDigest;
    private final Map<String, Kernel> kernels = new HashMap<>();
    private final List<Addresses.Host> pinned = new ArrayList<>();
    private final List<Graph> graphs = new ArrayList<>();
    private final DeviceMemory memory;
    private final Staging staging;
    private volatile Thread owner = Thread.currentThread();
    private boolean capturing;
    private boolean closed;

    private Gpu(CudaDevice device, Supplier<String> words, CudaConfig config, List<KernelImage> images) {
        this.device = device;
        faults = new Faults(device.name(), words);
        faults.check(JCudaDriver.cuInit(0), "cuInit");
        faults.check(JCudaDriver.cuDeviceGet(handle, device.ordinal()), "cuDeviceGet");
        faults.check(JCudaDriver.cuDevicePrimaryCtxRetain(context, handle), "cuDevicePrimaryCtxRetain");
        try {
            makeCurrent();
            sharedBytes = attribute(CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
            KernelImage image = KernelImage.load(images, module, faults);
            imageName = image.name();
            imageDigest = image.digest();
            faults.check(JCudaDriver.cuStreamCreate(stream, CUstream_flags.CU_STREAM_NON_BLOCKING), "cuStreamCreate");
            staging = new Staging(faults, stream, pinned(Staging.bytes()), pinned(Staging.bytes()));
            memory = new DeviceMemory(faults, device.name(), budget(config), config.separate());
        } catch (RuntimeException | Error e) {
            releaseContext();
            throw e;
        }
    }

    /// Opens a device.
    ///
    /// @throws millrace.engine.BackendException with the codes of [CudaProbe], `CUDA_BINDING` or `CUDA_NO_KERNELS`
    /// @throws DeviceException `CUDA_MEMORY` or `CUDA_FAILED`
    public static Gpu open(CudaConfig config) {
        DriverCalls driver = CudaLibraries.driver(config.driver());
        CudaDevice device = CudaProbe.probe(driver, config);
        List<KernelImage> images = KernelImage.of(config);
        CudaLibraries.load(config.driver());
        return new Gpu(device, driver::message, config, images);
    }

    private int attribute(int number) {
        int[] value = new int[1];
        faults.check(JCudaDriver.cuDeviceGetAttribute(value, number, handle), "cuDeviceGetAttribute");
        return value[0];
    }

    private long budget(CudaConfig config) {
        if (config.memoryBytes() > 0) {
            return config.memoryBytes();
        }
        long[] free = new long[1];
        long[] total = new long[1];
        faults.check(JCudaDriver.cuMemGetInfo(free, total), "cuMemGetInfo");
        return mostOf(free[0]);
    }

    /// What is taken of free memory where nobody says how much.
    static long mostOf(long free) {
        return free - Math.min(free / SHARE_LEFT, MOST_LEFT);
    }

    /// Makes the calling thread the one that computes, until another one does.
    public void own() {
        Thread current = Thread.currentThread();
        if (owner != current) {
            requirePlatformThread();
            owner = current;
        }
    }

    private static void requirePlatformThread() {
        if (Thread.currentThread().isVirtual()) {
            throw new IllegalStateException("gpu: expected a platform thread, got a virtual one");
        }
    }

    /// Takes the lock, with the context current and the device known to be usable.
    private void enter() {
        requirePlatformThread();
        lock.lock();
        try {
            if (closed) {
                throw new IllegalStateException("gpu: expected an open device, got one that was closed");
            }
            faults.requireUsable();
            makeCurrent();
        } catch (RuntimeException | Error e) {
            lock.unlock();
            throw e;
        }
    }

    private void makeCurrent() {
        Gpu[] current = CURRENT.get();
        if (current[0] != this) {
            faults.check(JCudaDriver.cuCtxSetCurrent(context), "cuCtxSetCurrent");
            current[0] = this;
        }
    }

    private void requireNotCapturing(String what) {
        if (capturing) {
            throw new IllegalStateException("gpu: expected kernels alone in a graph, got " + what);
        }
    }

    /// Runs calls of this thread with nothing of other threads between them.
    public <T> T exclusively(Supplier<T> calls) {
        enter();
        try {
            return calls.get();
        } finally {
            lock.unlock();
        }
    }

    /// A kernel of the image.
    ///
    /// @throws DeviceException if there is none of this name
    public Kernel kernel(String name) {
        enter();
        try {
            Kernel known = kernels.get(name);
            if (known != null) {
                return known;
            }
            CUfunction function = new CUfunction();
            faults.check(JCudaDriver.cuModuleGetFunction(function, module, name), "cuModuleGetFunction " + name);
            Kernel kernel = new Kernel(this, name, function);
            kernels.put(name, kernel);
            return kernel;
        } finally {
            lock.unlock();
        }
    }

    /// A launch of a kernel, to be given its arguments. The owner thread gets the same one each time.
    public Launch launch(Kernel kernel) {
        Launch launch = Thread.currentThread() == owner ? kernel.launch() : new Launch(this, kernel);
        return launch.restart();
    }

    void run(Kernel kernel, Pointer arguments, int gridX, int gridY, int gridZ, int blockX, int sharedBytes) {
        enter();
        try {
            faults.launched(kernel.name());
            if (kernel.raiseShared(sharedBytes)) {
                faults.check(
                        JCudaDriver.cuFuncSetAttribute(
                                kernel.function(),
                                CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                sharedBytes),
                        "cuFuncSetAttribute");
            }
            faults.check(
                    JCudaDriver.cuLaunchKernel(
                            kernel.function(), gridX, gridY, gridZ, blockX, 1, 1, sharedBytes, stream, arguments, null),
                    "cuLaunchKernel");
        } finally {
            lock.unlock();
        }
    }

    /// Zeroed memory of the device that lives as long as this object, at a multiple of 256 bytes.
    ///
    /// @param what for the message, for example `the KV cache`
    /// @throws DeviceException `CUDA_MEMORY` if the budget does not have so much left
    public long allocate(long bytes, String what) {
        enter();
        try {
            requireNotCapturing("an allocation");
            long address = memory.allocate(bytes, what);
            fill(address, (byte) 0, bytes);
            return address;
        } finally {
            lock.unlock();
        }
    }

    /// Zeroed memory of the host that lives as long as this object and that the device copies from and to at full speed.
    @SuppressWarnings("restricted")
    public MemorySegment pinned(long bytes) {
        enter();
        try {
            requireNotCapturing("an allocation");
            var pointer = new Addresses.Host();
            faults.check(JCudaDriver.cuMemHostAlloc(pointer, bytes, HOST_FLAGS), "cuMemHostAlloc");
            pinned.add(pointer);
            return MemorySegment.ofAddress(pointer.address()).reinterpret(bytes).fill((byte) 0);
        } finally {
            lock.unlock();
        }
    }

    /// Copies memory of the host outside the heap to the device, in the order of the stream. The host's may change as soon
    /// as this returns.
    public void upload(long to, MemorySegment host) {
        enter();
        try {
            requireNotCapturing("a copy");
            staging.upload(to, host);
        } finally {
            lock.unlock();
        }
    }

    /// Copies memory of the device to the host, after everything that was queued before; the bytes are there when this
    /// returns.
    public void download(MemorySegment host, long from) {
        enter();
        try {
            requireNotCapturing("a copy");
            staging.download(host, from);
        } finally {
            lock.unlock();
        }
    }

    /// A copy between pinned memory and the device that can be queued again and again without allocating.
    public Copy copy(MemorySegment host, long at) {
        return new Copy(this, Addresses.host(host), Addresses.device(at), host.byteSize());
    }

    void send(Copy copy, long bytes) {
        enter();
        try {
            requireNotCapturing("a copy");
            faults.check(
                    JCudaDriver.cuMemcpyHtoDAsync(copy.device(), copy.host(), bytes, stream), "cuMemcpyHtoDAsync");
        } finally {
            lock.unlock();
        }
    }

    void fetch(Copy copy, long bytes) {
        enter();
        try {
            requireNotCapturing("a copy");
            faults.check(
                    JCudaDriver.cuMemcpyDtoHAsync(copy.host(), copy.device(), bytes, stream), "cuMemcpyDtoHAsync");
        } finally {
            lock.unlock();
        }
    }

    /// Copies within the device.
    public void copy(long to, long from, long bytes) {
        enter();
        try {
            faults.check(
                    JCudaDriver.cuMemcpyDtoDAsync(Addresses.device(to), Addresses.device(from), bytes, stream),
                    "cuMemcpyDtoDAsync");
        } finally {
            lock.unlock();
        }
    }

    /// Sets memory of the device.
    public void fill(long to, byte value, long bytes) {
        fill(Addresses.device(to), value, bytes);
    }

    void fill(Copy copy, byte value, long bytes) {
        fill(copy.device(), value, bytes);
    }

    private void fill(CUdeviceptr to, byte value, long bytes) {
        enter();
        try {
            faults.check(JCudaDriver.cuMemsetD8Async(to, value, bytes, stream), "cuMemsetD8Async");
        } finally {
            lock.unlock();
        }
    }

    /// Waits for everything that was queued.
    ///
    /// @throws DeviceException if any of it failed
    public void synchronize() {
        enter();
        try {
            requireNotCapturing("a wait");
            faults.check(JCudaDriver.cuStreamSynchronize(stream), "cuStreamSynchronize");
        } finally {
            lock.unlock();
        }
    }

    /// Captures the launches of `operations`, which do not run, for [#launch(Graph)]. Nothing else may be queued there.
    ///
    /// @param name for messages
    public Graph capture(String name, Runnable operations) {
        enter();
        try {
            requireNotCapturing("a graph");
            faults.check(
                    JCudaDriver.cuStreamBeginCapture(stream, CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                    "cuStreamBeginCapture");
            capturing = true;
            CUgraph captured = new CUgraph();
            try {
                operations.run();
            } catch (RuntimeException | Error e) {
                if (JCudaDriver.cuStreamEndCapture(stream, captured) == 0) {
                    int ignored = JCudaDriver.cuGraphDestroy(captured);
                }
                throw e;
            } finally {
                capturing = false;
            }
            faults.check(JCudaDriver.cuStreamEndCapture(stream, captured), "cuStreamEndCapture");
            CUgraphExec executable = new CUgraphExec();
            faults.check(JCudaDriver.cuGraphInstantiate(executable, captured, 0), "cuGraphInstantiate");
            faults.check(JCudaDriver.cuGraphDestroy(captured), "cuGraphDestroy");
            Graph graph = new Graph(name, executable);
            graphs.add(graph);
            return graph;
        } finally {
            lock.unlock();
        }
    }

    /// Queues a captured graph.
    public void launch(Graph graph) {
        enter();
        try {
            requireNotCapturing("a graph");
            faults.launched(graph.name());
            faults.check(JCudaDriver.cuGraphLaunch(graph.executable(), stream), "cuGraphLaunch");
        } finally {
            lock.unlock();
        }
    }

    /// What ended the use of the device, or null.
    public @Nullable DeviceException failure() {
        return faults.failure();
    }

    /// Facts about the device.
    public CudaDevice device() {
        return device;
    }

    /// The device's own name.
    public String name() {
        return device.name();
    }

    /// Shared memory that a block may have, once a kernel asked for it.
    int sharedBytes() {
        return sharedBytes;
    }

    /// Device memory of this object in all.
    public long memoryBytes() {
        return memory.budget();
    }

    /// Device memory that is left.
    public long memoryLeft() {
        return memory.left();
    }

    /// SHA-256 of the image of the kernels, hexadecimal.
    public String imageDigest() {
        return imageDigest;
    }

    /// Which image was loaded: `millrace.fatbin` or `millrace.ptx`.
    public String imageName() {
        return imageName;
    }

    /// Waits for the device and gives everything back. A device that failed is left to the end of the process.
    @Override
    public void close() {
        lock.lock();
        try {
            if (closed) {
                return;
            }
            closed = true;
            if (faults.failure() == null) {
                makeCurrent();
                release();
            }
        } finally {
            lock.unlock();
        }
    }

    /// In the reverse of the order that they were made in. A failure here says nothing that anybody could act on.
    private void release() {
        int ignored = JCudaDriver.cuStreamSynchronize(stream);
        for (Graph graph : graphs) {
            ignored = JCudaDriver.cuGraphExecDestroy(graph.executable());
        }
        memory.close();
        staging.close();
        releaseContext();
    }

    /// What there is from the beginning on; some of it may be missing.
    private void releaseContext() {
        for (Addresses.Host pointer : pinned) {
            int ignored = JCudaDriver.cuMemFreeHost(pointer);
        }
        int ignored = JCudaDriver.cuStreamDestroy(stream);
        ignored = JCudaDriver.cuModuleUnload(module);
        ignored = JCudaDriver.cuDevicePrimaryCtxRelease(handle);
        CURRENT.get()[0] = null;
    }
}
