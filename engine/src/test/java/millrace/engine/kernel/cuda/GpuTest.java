package millrace.engine.kernel.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.InstanceOfAssertFactories.type;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import jcuda.driver.CUmodule;
import millrace.engine.BackendException;
import millrace.engine.CudaConfig;
import millrace.engine.DeviceException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Timeout(60)
final class GpuTest {
    private static final String NAME = "Millrace CUDA stand-in (CPU)";
    private static final int BYTES = 4096;
    private static final CudaConfig CONFIG = CudaConfig.STANDIN.withMemoryBytes(1 << 20);

    private final Arena arena = Arena.ofShared();
    private Gpu gpu;

    @BeforeEach
    void open() {
        StandIn.assumePresent();
        gpu = Gpu.open(CONFIG);
    }

    @AfterEach
    void close() {
        if (gpu != null) {
            gpu.close();
        }
        arena.close();
    }

    private MemorySegment random(int bytes) {
        MemorySegment segment = arena.allocate(bytes);
        byte[] values = new byte[bytes];
        new Random(bytes).nextBytes(values);
        segment.copyFrom(MemorySegment.ofArray(values));
        return segment;
    }

    private MemorySegment bytesAt(long address, int bytes) {
        MemorySegment got = arena.allocate(bytes);
        gpu.download(got, address);
        return got;
    }

    private void copyOnDevice(long to, long from) {
        gpu.launch(gpu.kernel("copy_words16")).ptr(to).ptr(from).i64(BYTES / 16).run(2, 1, 1, 64, 0);
    }

    @Test
    void factsShouldBeThoseOfTheDevice() {
        assertThat(gpu.name()).isEqualTo(NAME);
        assertThat(gpu.device().standin()).isTrue();
        assertThat(gpu.memoryBytes()).isEqualTo(1 << 20);
        assertThat(gpu.imageDigest()).matches("[0-9a-f]{64}");
        assertThat(gpu.failure()).isNull();
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void memoryShouldBeZeroedAlignedAndCounted(boolean separate) {
        try (Gpu one = Gpu.open(CONFIG.withSeparate(separate))) {
            long first = one.allocate(1, "a");
            long second = one.allocate(300, "b");
            assertThat(first % 256).isZero();
            assertThat(second % 256).isZero();
            assertThat(Math.abs(second - first)).isGreaterThanOrEqualTo(256);
            assertThat(one.memoryLeft()).isEqualTo((1 << 20) - 768);
            MemorySegment got = random(300);
            one.download(got, second);
            assertThat(got.mismatch(arena.allocate(300))).isEqualTo(-1);
        }
    }

    /// Through both staging buffers and back, several times each.
    @Test
    void copiesLargerThanTheStagingBuffersShouldArriveWhole() {
        int bytes = (int) (3 * Staging.bytes() + 12_345);
        try (Gpu large = Gpu.open(CudaConfig.STANDIN.withMemoryBytes(32 << 20))) {
            long address = large.allocate(bytes, "a large piece");
            MemorySegment sent = random(bytes);
            MemorySegment kept = arena.allocate(bytes).copyFrom(sent);
            large.upload(address, sent);
            sent.fill((byte) 0);
            MemorySegment got = arena.allocate(bytes);
            large.download(got, address);
            assertThat(got.mismatch(kept)).isEqualTo(-1);
        }
    }

    @Test
    void memoryBeyondTheBudgetShouldBeRefused() {
        gpu.allocate(1 << 19, "a half");
        assertThatThrownBy(() -> gpu.allocate((1 << 19) + 1, "the KV cache"))
                .isInstanceOfSatisfying(DeviceException.class, e -> {
                    assertThat(e.code()).isEqualTo("CUDA_MEMORY");
                    assertThat(e.resultName()).isEqualTo("CUDA_ERROR_OUT_OF_MEMORY");
                    assertThat(e.sticky()).isFalse();
                })
                .hasMessage(NAME + ": memory for the KV cache: expected 524544 bytes, got 524288 that are left; take a smaller "
                        + "engine.weights or engine.kv.format, end what else uses the device, or set engine.memory.bytes");
        assertThat(gpu.allocate(1 << 19, "the other half")).isPositive();
    }

    @Test
    void budgetThatTheDeviceDoesNotHaveShouldBeRefused() {
        try (StandIn.Setting setting = StandIn.with("memory", 100 << 20)) {
            setting.during(() -> assertThatThrownBy(
                            () -> Gpu.open(CudaConfig.STANDIN.withMemoryBytes(200 << 20).withSeparate(false)))
                    .isInstanceOfSatisfying(DeviceException.class, e -> assertThat(e.code()).isEqualTo("CUDA_MEMORY"))
                    .hasMessageStartingWith(NAME + ": memory for the memory of the engine: expected 209715200 bytes, got "));
        }
    }

    @Test
    void unknownKernelShouldBeRefusedByName() {
        assertThatThrownBy(() -> gpu.kernel("no_such_kernel"))
                .isInstanceOfSatisfying(DeviceException.class, e -> {
                    assertThat(e.code()).isEqualTo("CUDA_FAILED");
                    assertThat(e.result()).isEqualTo(500);
                })
                .hasMessageStartingWith(NAME + ": cuModuleGetFunction no_such_kernel: expected success, got "
                        + "CUDA_ERROR_NOT_FOUND (500): ");
        assertThat(gpu.kernel("copy_words16")).isSameAs(gpu.kernel("copy_words16"));
    }

    @Test
    void argumentsShouldBePackedInOrder() {
        Launch launch = gpu.launch(gpu.kernel("copy_words16"));
        launch.ptr(0x1234_5678_9ABC_DEF0L).i32(-2).i64(-3).f32(-0.5f);
        assertThat(launch.count()).isEqualTo(4);
        assertThat(launch.argument(0)).isEqualTo(0x1234_5678_9ABC_DEF0L);
        assertThat((int) launch.argument(1)).isEqualTo(-2);
        assertThat(launch.argument(2)).isEqualTo(-3);
        assertThat(Float.intBitsToFloat((int) launch.argument(3))).isEqualTo(-0.5f);
        Launch again = gpu.launch(gpu.kernel("copy_words16"));
        assertThat(again).isSameAs(launch);
        assertThat(again.count()).isZero();
        for (int i = 0; i < Launch.MOST; i++) {
            again.i32(i);
        }
        assertThatThrownBy(() -> again.i32(0)).hasMessage("copy_words16: expected at most 40 arguments");
    }

    /// A launch never computes with what the one before has left.
    @Test
    void tooFewOrTooManyArgumentsShouldBeRefused() {
        long address = gpu.allocate(BYTES, "a piece");
        copyOnDevice(address, address);
        Kernel kernel = gpu.kernel("copy_words16");
        assertThatThrownBy(() -> gpu.launch(kernel).ptr(address).ptr(address).run(1, 1, 1, 32, 0))
                .hasMessageContaining("copy_words16: expected 3 arguments, got 2");
        assertThatThrownBy(() -> gpu.launch(kernel).ptr(address).ptr(address).i64(1).i32(1).run(1, 1, 1, 32, 0))
                .hasMessageContaining("copy_words16: expected 3 arguments, got more");
        copyOnDevice(address, address);
        gpu.synchronize();
    }

    @Test
    void impossibleLaunchShouldBeRefusedAndDoNoHarm() {
        Kernel kernel = gpu.kernel("copy_words16");
        assertThatThrownBy(() -> gpu.launch(kernel).ptr(0).ptr(0).i64(0).run(1, 1, 1, 2048, 0))
                .isInstanceOfSatisfying(DeviceException.class, e -> {
                    assertThat(e.resultName()).isEqualTo("CUDA_ERROR_INVALID_VALUE");
                    assertThat(e.kernel()).isEqualTo("copy_words16");
                    assertThat(e.sticky()).isFalse();
                });
        assertThatThrownBy(() -> gpu.launch(kernel).ptr(0).ptr(0).i64(0).run(1, 1, 1, 32, 1 << 20))
                .hasMessageContaining("cuFuncSetAttribute");
        assertThat(gpu.failure()).isNull();
        gpu.synchronize();
    }

    @Test
    void repeatedGraphShouldDoWhatTheLaunchesDo() {
        MemorySegment sent = random(BYTES);
        long from = gpu.allocate(BYTES, "from");
        long between = gpu.allocate(BYTES, "between");
        long to = gpu.allocate(BYTES, "to");
        Graph graph = gpu.capture("two copies", () -> {
            copyOnDevice(between, from);
            copyOnDevice(to, between);
        });
        gpu.upload(from, sent);
        assertThat(bytesAt(to, BYTES).mismatch(sent)).as("captured launches do not run").isNotEqualTo(-1);
        gpu.launch(graph);
        assertThat(bytesAt(to, BYTES).mismatch(sent)).isEqualTo(-1);
        // What changes lies in the device's memory.
        sent.set(ValueLayout.JAVA_INT, 16, 42);
        gpu.upload(from, sent);
        gpu.launch(graph);
        assertThat(bytesAt(to, BYTES).mismatch(sent)).isEqualTo(-1);
    }

    @Test
    void onlyKernelsMayBeCaptured() {
        MemorySegment host = random(16);
        long address = gpu.allocate(16, "a piece");
        refusedInACapture("an allocation", () -> gpu.allocate(16, "b"));
        refusedInACapture("an allocation", () -> gpu.pinned(16));
        refusedInACapture("a copy", () -> gpu.upload(address, host));
        refusedInACapture("a copy", () -> gpu.download(host, address));
        refusedInACapture("a wait", gpu::synchronize);
        refusedInACapture("a graph", () -> gpu.capture("inner", () -> {}));
        // The stream is as before.
        gpu.upload(address, host);
        assertThat(bytesAt(address, 16).mismatch(host)).isEqualTo(-1);
    }

    private void refusedInACapture(String what, Runnable call) {
        assertThatThrownBy(() -> gpu.capture("a test", call))
                .isInstanceOf(IllegalStateException.class)
                .hasMessage("gpu: expected kernels alone in a graph, got " + what);
    }

    @Test
    void otherThreadsShouldWorkBesideTheOwner() {
        MemorySegment sent = random(BYTES);
        long from = gpu.allocate(BYTES, "from");
        long to = gpu.allocate(BYTES, "to");
        Launch mine = gpu.launch(gpu.kernel("copy_words16"));
        Launch others = CompletableFuture.supplyAsync(() -> {
                    gpu.upload(from, sent);
                    copyOnDevice(to, from);
                    return gpu.launch(gpu.kernel("copy_words16"));
                })
                .join();
        assertThat(others).isNotSameAs(mine);
        assertThat(bytesAt(to, BYTES).mismatch(sent)).isEqualTo(-1);
        CompletableFuture.runAsync(() -> {
                    gpu.own();
                    assertThat(gpu.launch(gpu.kernel("copy_words16"))).isSameAs(mine);
                })
                .join();
    }

    @Test
    void twoDevicesShouldTakeTurnsOnOneThread() {
        MemorySegment sent = random(BYTES);
        try (Gpu second = Gpu.open(CONFIG)) {
            for (int round = 0; round < 3; round++) {
                for (Gpu each : new Gpu[] {gpu, second}) {
                    long address = each.allocate(BYTES, "a piece");
                    each.upload(address, sent);
                    MemorySegment got = arena.allocate(BYTES);
                    each.download(got, address);
                    assertThat(got.mismatch(sent)).isEqualTo(-1);
                }
            }
        }
        gpu.synchronize();
    }

    @Test
    void virtualThreadShouldBeRefused() {
        var outcome = new CompletableFuture<Long>();
        Thread.startVirtualThread(() -> {
            try {
                outcome.complete(gpu.allocate(16, "a piece"));
            } catch (RuntimeException e) {
                outcome.completeExceptionally(e);
            }
        });
        assertThatThrownBy(outcome::join)
                .isInstanceOf(CompletionException.class)
                .hasRootCauseMessage("gpu: expected a platform thread, got a virtual one");
    }

    @Test
    void nothingShouldBeQueuedOnAClosedDevice() {
        gpu.close();
        gpu.close();
        assertThatThrownBy(gpu::synchronize).hasMessage("gpu: expected an open device, got one that was closed");
    }

    /// The kernel fails when somebody waits, and from then on everything does, with the first reason.
    @Test
    void faultOfAKernelShouldEndTheUseOfTheDevice() {
        long address = gpu.allocate(BYTES, "a piece");
        try {
            assertThatThrownBy(() -> {
                        copyOnDevice(address, 16);
                        gpu.synchronize();
                    })
                    .asInstanceOf(type(DeviceException.class))
                    .satisfies(e -> {
                        assertThat(e.code()).isEqualTo("CUDA_FAILED");
                        assertThat(e.resultName()).isEqualTo("CUDA_ERROR_ILLEGAL_ADDRESS");
                        assertThat(e.kernel()).isEqualTo("copy_words16");
                        assertThat(e.sticky()).isTrue();
                        assertThat(e.getMessage())
                                .startsWith(NAME + ": ")
                                .contains("expected success, got CUDA_ERROR_ILLEGAL_ADDRESS (700): ")
                                .contains(", kernels up to copy_words16 were queued before; restart the process; ");
                    });
            DeviceException first = gpu.failure();
            assertThat(first).isNotNull();
            assertThatThrownBy(() -> gpu.allocate(16, "b"))
                    .isInstanceOfSatisfying(DeviceException.class, e -> assertThat(e.result()).isEqualTo(700))
                    .hasMessage("the device failed before and this process cannot use it again: " + first.getMessage());
            assertThatThrownBy(gpu::synchronize).isInstanceOf(DeviceException.class);
            gpu.close();
        } finally {
            StandIn.reset();
        }
    }

    @Test
    void aTenthOfFreeMemoryButAtMostTwoGigabytesShouldBeLeft() {
        long gigabyte = 1L << 30;
        assertThat(Gpu.mostOf(10 * gigabyte)).isEqualTo(9 * gigabyte);
        assertThat(Gpu.mostOf(140 * gigabyte)).isEqualTo(138 * gigabyte);
    }

    @Test
    void imageThatIsNotThereShouldBeRefused() {
        assertThatThrownBy(() -> Gpu.open(CONFIG.withImage("other.fatbin")))
                .isInstanceOfSatisfying(BackendException.class, e -> assertThat(e.code()).isEqualTo("CUDA_NO_KERNELS"))
                .hasMessage("backend \"cuda\": expected other.fatbin in the jar, got none: it was built with -Dcuda.skip; "
                        + "build again without it, or set engine.backend to auto");
        try (Gpu ptx = Gpu.open(CONFIG.withImage("millrace.ptx"))) {
            assertThat(ptx.imageName()).isEqualTo("millrace.ptx");
        }
    }

    /// Drivers do not know machine code of a compiler that is newer than they are.
    @Test
    void ptxShouldServeWhereTheCodeBesideItIsNotKnown() {
        assumeTrue(CudaLibraries.resource("millrace.fatbin") != null, "built without nvcc");
        try (StandIn.Setting setting = StandIn.with("textOnly", 1);
                Gpu old = Gpu.open(CONFIG)) {
            setting.during(() -> assertThat(old.imageName()).isEqualTo("millrace.ptx"));
            assertThat(old.imageDigest()).isNotEqualTo(gpu.imageDigest());
            assertThatThrownBy(() -> Gpu.open(CONFIG.withImage("millrace.fatbin")))
                    .isInstanceOfSatisfying(DeviceException.class, e -> {
                        assertThat(e.resultName()).isEqualTo("CUDA_ERROR_INVALID_IMAGE");
                        assertThat(e.getMessage()).startsWith(NAME + ": cuModuleLoadDataEx millrace.fatbin: expected success, got ");
                    });
            // What could not be opened has left the context to the others.
            assertThat(gpu.allocate(16, "a") % 256).isZero();
        }
    }

    /// Its compiler says more than its result: as much as a message has room for, in one line.
    @Test
    void ptxThatTheDriverRefusesShouldBeReportedWithItsLog() {
        assertThatThrownBy(() -> load(".version 9.9\n.target sm_80\n"))
                .isInstanceOfSatisfying(DeviceException.class, e -> {
                    assertThat(e.code()).isEqualTo("CUDA_FAILED");
                    assertThat(e.resultName()).isEqualTo("CUDA_ERROR_UNSUPPORTED_PTX_VERSION");
                    assertThat(e.sticky()).isFalse();
                })
                .hasMessage("a device: cuModuleLoadDataEx new.ptx: expected success, got CUDA_ERROR_UNSUPPORTED_PTX_VERSION (222): "
                        + "what is known, its log: \"ptxas application ptx input, line 1; fatal : Unsupported .version 9.9; current "
                        + "version is '8.0' ptxas fatal : Ptx assembly aborted due to errors\"; restart the process, and report "
                        + "this if it returns");
        assertThatThrownBy(() -> load(".version 9." + "9".repeat(10_000) + "\n"))
                .hasMessageContaining("Unsupported .version 9.999")
                .hasMessageContaining("999…\"; restart")
                .satisfies(e -> assertThat(e.getMessage()).hasSizeLessThan(700));
    }

    private KernelImage load(String ptx) {
        var faults = new Faults("a device", () -> "what is known");
        var image = new KernelImage("new.ptx", ptx.getBytes(StandardCharsets.UTF_8));
        return gpu.exclusively(() -> KernelImage.load(List.of(image), new CUmodule(), faults));
    }

    @Test
    void secondDriverShouldBeRefused() {
        assertThatThrownBy(() -> Gpu.open(CudaConfig.SYSTEM))
                .isInstanceOfSatisfying(BackendException.class, e -> assertThat(e.code()).isEqualTo("CUDA_DRIVER_MIXED"));
    }
}
