package millrace.engine.kernel.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/// The driver API of the stand-in, as strict as a driver and more: what it refuses a device would take badly.
class StandinDriverTest {
    private static final int INVALID_VALUE = 1;
    private static final int OUT_OF_MEMORY = 2;
    private static final int INVALID_IMAGE = 200;
    private static final int INVALID_CONTEXT = 201;
    private static final int NOT_FOUND = 500;
    private static final int ILLEGAL_ADDRESS = 700;
    private static final int LAUNCH_FAILED = 719;
    private static final int NOT_SUPPORTED = 801;
    private static final int CAPTURE_UNSUPPORTED = 900;
    private static final int CAPTURE_INVALIDATED = 901;

    private static final MemorySegment NULL = MemorySegment.NULL;
    private static final String PTX = """
            .version 8.0
            .target sm_80
            .address_size 64
            .visible .entry planted_out_of_bounds(
            .param .u64 planted_out_of_bounds_param_0,
            .param .u32 planted_out_of_bounds_param_1
            )
            .visible .entry planted_trap(
            .param .align 4 .b8 planted_trap_param_0[12]
            )
            """;

    private Emulator emulator;

    @BeforeEach
    void open() {
        emulator = Emulator.open();
        emulator.resetDriver();
        call("cuInit", 0);
        MemorySegment context = emulator.arena.allocate(8);
        call("cuDevicePrimaryCtxRetain", context, 0);
        call("cuCtxSetCurrent", at(context));
    }

    @AfterEach
    void close() {
        if (emulator != null) {
            emulator.resetDriver();
            emulator.close();
        }
    }

    private void call(String function, Object... arguments) {
        assertThat(emulator.driver(function, arguments)).as(function + ": " + emulator.driverMessage()).isZero();
    }

    private void refused(int code, String message, String function, Object... arguments) {
        assertThat(emulator.driver(function, arguments)).as(function).isEqualTo(code);
        assertThat(emulator.driverMessage()).isEqualTo(message);
    }

    private static MemorySegment at(MemorySegment pointer) {
        return pointer.get(ValueLayout.ADDRESS, 0);
    }

    private MemorySegment make(String function, Object... more) {
        MemorySegment out = emulator.arena.allocate(8);
        Object[] arguments = new Object[more.length + 1];
        arguments[0] = out;
        System.arraycopy(more, 0, arguments, 1, more.length);
        call(function, arguments);
        return at(out);
    }

    private MemorySegment stream() {
        return make("cuStreamCreate", 1);
    }

    private long memory(long bytes) {
        return make("cuMemAlloc_v2", bytes).address();
    }

    @SuppressWarnings("restricted")
    private MemorySegment pinned(long bytes) {
        return make("cuMemHostAlloc", bytes, 0).reinterpret(bytes);
    }

    private MemorySegment function(String image, String name) {
        return make("cuModuleGetFunction", make("cuModuleLoadData", emulator.arena.allocateFrom(image)), emulator.arena.allocateFrom(name));
    }

    /// @param arguments Long for addresses, Integer for numbers
    private Object[] launch(MemorySegment function, int threads, int shared, MemorySegment stream, Object... arguments) {
        // With the null at the end by which the stand-in counts them.
        MemorySegment parameters = emulator.arena.allocate(ValueLayout.ADDRESS, arguments.length + 1L);
        for (int i = 0; i < arguments.length; i++) {
            parameters.setAtIndex(
                    ValueLayout.ADDRESS, i,
                    arguments[i] instanceof Long n
                            ? emulator.arena.allocateFrom(ValueLayout.JAVA_LONG, n)
                            : emulator.arena.allocateFrom(ValueLayout.JAVA_INT, (Integer) arguments[i]));
        }
        return new Object[] {function, 1, 1, 1, threads, 1, 1, shared, stream, parameters, NULL};
    }

    @Test
    void aLazyStreamRunsWhenSomebodyWaits() {
        emulator.with("lazy", 1);
        MemorySegment stream = stream();
        MemorySegment host = pinned(4);
        long device = memory(4);
        call("cuMemsetD32Async", device, 7, 1L, stream);
        call("cuMemcpyDtoHAsync_v2", host, device, 4L, stream);
        assertThat(host.get(ValueLayout.JAVA_INT, 0)).as("nobody waited").isZero();
        call("cuStreamSynchronize", stream);
        assertThat(host.get(ValueLayout.JAVA_INT, 0)).isEqualTo(7);
    }

    @Test
    void lazyStreamsDoNotWaitForOneAnother() {
        emulator.with("lazy", 1);
        MemorySegment stream = stream();
        MemorySegment host = pinned(4);
        long device = memory(4);
        call("cuMemsetD32Async", device, 7, 1L, NULL);
        call("cuMemcpyDtoHAsync_v2", host, device, 4L, stream);
        call("cuStreamSynchronize", stream);
        assertThat(host.get(ValueLayout.JAVA_INT, 0)).as("the default stream has not run").isEqualTo(-1);
    }

    @Test
    void anEventOrdersStreams() {
        emulator.with("lazy", 1);
        MemorySegment first = stream();
        MemorySegment second = stream();
        MemorySegment event = make("cuEventCreate", 0);
        MemorySegment host = pinned(4);
        long device = memory(4);
        call("cuMemsetD32Async", device, 7, 1L, first);
        call("cuEventRecord", event, first);
        call("cuStreamWaitEvent", second, event, 0);
        call("cuMemcpyDtoHAsync_v2", host, device, 4L, second);
        call("cuStreamSynchronize", second);
        assertThat(host.get(ValueLayout.JAVA_INT, 0)).isEqualTo(7);
    }

    @Test
    void freshMemoryIsNaNHoweverLarge() {
        for (long bytes : new long[] {4, 4100, 40L << 20}) {
            MemorySegment host = pinned(bytes);
            long device = memory(bytes);
            call("cuMemcpyDtoH_v2", host, device, bytes);
            for (long i = 0; i < bytes; i += Math.max(1, bytes / 4099)) {
                assertThat(host.get(ValueLayout.JAVA_BYTE, i)).isEqualTo((byte) -1);
            }
            call("cuMemsetD8_v2", device, (int) (byte) 3, bytes);
            call("cuMemcpyDtoH_v2", host, device, bytes);
            assertThat(host.get(ValueLayout.JAVA_BYTE, bytes - 1)).isEqualTo((byte) 3);
            call("cuMemFree_v2", device);
        }
        // What one allocation wrote no other one sees.
        MemorySegment host = pinned(40L << 20);
        call("cuMemcpyDtoH_v2", host, memory(40L << 20), 40L << 20);
        assertThat(host.get(ValueLayout.JAVA_INT, (20L << 20) + 4)).isEqualTo(-1);
    }

    @Test
    void aCopyStaysInsideOfItsAllocation() {
        long device = memory(100);
        MemorySegment host = pinned(200);
        refused(
                INVALID_VALUE, "cuMemcpyHtoDAsync: the range of 101 bytes is not inside one allocation",
                "cuMemcpyHtoDAsync_v2", device, host, 101L, NULL);
        refused(
                INVALID_VALUE, "cuMemcpyDtoHAsync: the range of 8 bytes is not inside one allocation",
                "cuMemcpyDtoHAsync_v2", host, device + 96, 8L, NULL);
        refused(INVALID_VALUE, "cuMemFree: the address begins no allocation", "cuMemFree_v2", device + 4);
    }

    @Test
    void memoryEnds() {
        emulator.with("memory", 1000);
        long device = memory(600);
        refused(OUT_OF_MEMORY, "cuMemAlloc: 401 bytes asked for, 400 left of 1000", "cuMemAlloc_v2", emulator.arena.allocate(8), 401L);
        call("cuMemFree_v2", device);
        memory(1000);
    }

    @Test
    void aKernelOutOfBoundsFailsForGood() {
        emulator.with("guard", 1).with("threads", 1);
        MemorySegment function = function(PTX, "planted_out_of_bounds");
        MemorySegment stream = stream();
        long device = memory(256);
        call("cuLaunchKernel", launch(function, 64, 0, stream, device, 1));
        call("cuStreamSynchronize", stream);
        assertThat(emulator.driver("cuLaunchKernel", launch(function, 65, 0, stream, device, 1))).isEqualTo(ILLEGAL_ADDRESS);
        String message = emulator.driverMessage();
        assertThat(message).isEqualTo("kernel planted_out_of_bounds, block (0,0,0), thread (64,0,0): access to the address 0x%x, which is not its own"
                .formatted(device + 256));
        assertThat(emulator.driver("cuStreamSynchronize", stream)).as("a failure stays").isEqualTo(ILLEGAL_ADDRESS);
        assertThat(emulator.driver("cuMemAlloc_v2", emulator.arena.allocate(8), 4L)).isEqualTo(ILLEGAL_ADDRESS);
        assertThat(emulator.driverMessage()).isEqualTo(message);
    }

    @Test
    void aFailureOfALazyStreamIsReportedByTheWait() {
        emulator.with("lazy", 1);
        MemorySegment function = function("\u007fELF", "planted_half_barrier");
        MemorySegment stream = stream();
        call("cuLaunchKernel", launch(function, 64, 0, stream, memory(256)));
        assertThat(emulator.driver("cuStreamSynchronize", stream)).isEqualTo(LAUNCH_FAILED);
        assertThat(emulator.driverMessage()).startsWith("kernel planted_half_barrier, block (0,0,0): deadlock");
    }

    @Test
    void anImageAndTheLibraryHaveTheSameParameters() {
        MemorySegment module = make("cuModuleLoadData", emulator.arena.allocateFrom(PTX));
        MemorySegment out = emulator.arena.allocate(8);
        refused(
                INVALID_IMAGE,
                "planted_trap: its parameters in the image are not those of the stand-in library; one of the two is stale",
                "cuModuleGetFunction", out, module, emulator.arena.allocateFrom("planted_trap"));
        refused(
                NOT_FOUND, "planted_none: not in the module's image",
                "cuModuleGetFunction", out, module, emulator.arena.allocateFrom("planted_none"));
        refused(
                NOT_FOUND, "unknown: not among the kernels of the stand-in library",
                "cuModuleGetFunction", out, make("cuModuleLoadData", emulator.arena.allocateFrom("\u007fELF")),
                emulator.arena.allocateFrom("unknown"));
        refused(
                INVALID_IMAGE, "cuModuleLoadData: the image is neither PTX nor a cubin nor a fat binary",
                "cuModuleLoadData", out, emulator.arena.allocateFrom("no image"));
    }

    @Test
    void launchesHaveLimits() {
        MemorySegment function = function(PTX, "planted_out_of_bounds");
        long device = memory(256);
        refused(
                INVALID_VALUE,
                "planted_out_of_bounds: a grid of (1,1,1) blocks of (1025,1,1) threads is not possible: blocks are at most "
                        + "(2147483647,65535,65535), threads of a block 1024",
                "cuLaunchKernel", launch(function, 1025, 0, NULL, device, 0));
        refused(
                INVALID_VALUE,
                "planted_out_of_bounds: 50000 bytes of dynamic shared memory, allowed are 49152 (cuFuncSetAttribute raises it to 232448)",
                "cuLaunchKernel", launch(function, 1, 50000, NULL, device, 0));
        call("cuFuncSetAttribute", function, 8, 50000);
        call("cuLaunchKernel", launch(function, 1, 50000, NULL, device, 0));
        refused(
                INVALID_VALUE, "planted_out_of_bounds: a block has at most 232448 bytes of shared memory",
                "cuFuncSetAttribute", function, 8, 240 << 10);
    }

    @Test
    void aGraphRunsWhatWasCapturedAgainAndAgain() {
        MemorySegment stream = stream();
        MemorySegment host = pinned(8);
        long device = memory(4);
        call("cuMemsetD32Async", device, 0, 1L, stream);
        call("cuStreamBeginCapture_v2", stream, 1);
        call("cuMemcpyHtoDAsync_v2", device, host, 4L, stream);
        call("cuMemcpyDtoHAsync_v2", host.asSlice(4), device, 4L, stream);
        MemorySegment graph = make2("cuStreamEndCapture", stream);
        MemorySegment executable = make("cuGraphInstantiateWithFlags", graph, 0L);
        call("cuGraphDestroy", graph);
        for (int i = 5; i < 8; i++) {
            host.set(ValueLayout.JAVA_INT, 0, i);
            call("cuGraphLaunch", executable, stream);
            call("cuStreamSynchronize", stream);
            assertThat(host.get(ValueLayout.JAVA_INT, 4)).isEqualTo(i);
        }
        call("cuGraphExecDestroy", executable);
    }

    private MemorySegment make2(String function, MemorySegment first) {
        MemorySegment out = emulator.arena.allocate(8);
        call(function, first, out);
        return at(out);
    }

    @Test
    void aCaptureRefusesWhatCannotBeCaptured() {
        MemorySegment stream = stream();
        call("cuStreamBeginCapture_v2", stream, 1);
        refused(
                CAPTURE_UNSUPPORTED, "cuMemAlloc is not permitted while a stream captures",
                "cuMemAlloc_v2", emulator.arena.allocate(8), 4L);
        refused(
                CAPTURE_UNSUPPORTED, "cuStreamSynchronize is not permitted on a stream that captures",
                "cuStreamSynchronize", stream);
        refused(
                CAPTURE_INVALIDATED, "cuStreamEndCapture: a call that was not permitted ended the capture",
                "cuStreamEndCapture", stream, emulator.arena.allocate(8));
        memory(4);
    }

    @Test
    void aThreadWithoutAContextIsRefused() throws InterruptedException {
        int[] result = new int[1];
        MemorySegment out = emulator.arena.allocate(8);
        // The arena is of this thread, so that the call takes addresses.
        long address = out.address();
        Thread other = new Thread(() -> result[0] = emulator.driver("cuMemAlloc_v2", MemorySegment.ofAddress(address), 4L));
        other.start();
        other.join();
        assertThat(result[0]).isEqualTo(INVALID_CONTEXT);
        assertThat(emulator.driverMessage()).isEqualTo("this thread has no current context");
    }

    @Test
    void whatIsNotEmulatedSaysSo() {
        assertThat(emulator.driver("cuArrayCreate_v2", NULL, NULL)).isEqualTo(NOT_SUPPORTED);
        assertThat(emulator.driver("cuTexRefCreate", NULL)).isEqualTo(NOT_SUPPORTED);
    }
}
