package millrace.engine.kernel.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.function.IntConsumer;
import millrace.engine.BackendException;
import millrace.engine.kernel.CacheMemory;
import millrace.engine.kernel.PageDigest;
import millrace.engine.kernel.WeightCopy;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Digests on the device have the values of the host's, and what is digested there is found damaged. The stand-in's memory
/// is the process's, so that a test can flip its bits.
@Tag(DeviceContract.TAG)
class CudaDigestsTest {
    private static Gpu gpu;
    private static DeviceLab lab;
    private final Arena arena = Arena.ofAuto();
    private final Random random = new Random(3);
    private MemorySegment damaged = MemorySegment.NULL;

    @BeforeAll
    static void open() {
        gpu = StandIn.open();
        lab = new DeviceLab(gpu);
    }

    @AfterAll
    static void close() {
        if (gpu != null) {
            gpu.close();
        }
    }

    @BeforeEach
    void own() {
        gpu.own();
    }

    private MemorySegment bytes(long size) {
        MemorySegment bytes = arena.allocate(size, 64);
        for (long i = 0; i < size; i++) {
            bytes.set(ValueLayout.JAVA_BYTE, i, (byte) random.nextInt());
        }
        return bytes;
    }

    private static long onHost(MemorySegment bytes, long tag) {
        return PageDigest.w64(tag, 0, bytes.asByteBuffer().order(ByteOrder.LITTLE_ENDIAN), 0, (int) bytes.byteSize());
    }

    @ParameterizedTest
    @ValueSource(ints = {4, 64, 1000, 4 * 8192 - 4, 4 * 8192, 4 * 8192 + 4, 4 * 20_001})
    void digestsAnySizeFromAnyWordOn(int size) {
        var digests = new CudaDigests(gpu);
        MemorySegment whole = bytes(size + 4L);
        long address = gpu.allocate(whole.byteSize(), "a test");
        gpu.upload(address, whole);
        StandIn.inEverySchedule(() -> {
            assertThat(digests.digest(address, size, -5)).isEqualTo(onHost(whole.asSlice(0, size), -5));
            assertThat(digests.digest(address + 4, size, 99)).isEqualTo(onHost(whole.asSlice(4, size), 99));
        });
    }

    @Test
    void digestsMorePagesThanALaunchTakes() {
        int count = 2_100;
        int size = 64;
        var digests = new CudaDigests(gpu);
        MemorySegment pages = bytes((long) count * size);
        long address = gpu.allocate(pages.byteSize(), "a test");
        gpu.upload(address, pages);
        long[] addresses = new long[count];
        long[] tags = new long[count];
        long[] expected = new long[count];
        for (int i = 0; i < count; i++) {
            int page = count - 1 - i;
            addresses[i] = address + (long) page * size;
            tags[i] = random.nextLong();
            expected[i] = onHost(pages.asSlice((long) page * size, size), tags[i]);
        }
        long[] got = new long[count];

        digests.digest(count, addresses, size, tags, got);

        assertThat(got).isEqualTo(expected);
    }

    @Test
    void refusesHalfWords() {
        var digests = new CudaDigests(gpu);
        assertThatThrownBy(() -> digests.digest(256, 6, 0))
                .isInstanceOf(IllegalArgumentException.class)
                .hasMessage("digest: expected whole words, at most 1073741824 bytes, got 6");
    }

    @Test
    void testsThatAPageKeepsItsBits() {
        try (CacheMemory cache = new CudaCache(gpu, new CudaTags(gpu))) {
            long slab = cache.allocate(3 * 4096);
            MemorySegment around = bytes(4096);
            cache.write(slab, around);
            cache.write(slab + 2 * 4096, around);

            assertThat(cache.keepsBits(slab + 4096, 4096)).isTrue();

            MemorySegment read = arena.allocate(4096);
            cache.read(slab + 4096, read);
            assertThat(read.toArray(ValueLayout.JAVA_BYTE)).as("the second pattern").containsOnly((byte) 0xAA);
            for (long neighbour : new long[] {slab, slab + 2 * 4096}) {
                cache.read(neighbour, read);
                assertThat(read.mismatch(around)).as("left alone").isEqualTo(-1);
            }
            assertThat(cache.algorithm()).isEqualTo(CacheMemory.Algorithm.W64);
        }
    }

    private static void alone(int count, IntConsumer task) {
        for (int i = 0; i < count; i++) {
            task.accept(i);
        }
    }

    @Test
    void everyFlippedBitOfACopyIsFoundAndTheCopyMadeGood() {
        var weights = new CudaWeights(gpu, CudaDigestsTest::alone);
        Object source = new Object();
        MemorySegment bytes = bytes(70_000);
        List<String> restored = new ArrayList<>();
        Runnable[] again = new Runnable[1];
        again[0] = () -> {
            restored.add("again");
            weights.upload(source, "codes", bytes, again[0]);
        };
        long address = weights.upload(source, "codes", bytes, again[0]);
        WeightCopy copy = weights.copies().getFirst();
        for (int i = 0; i < 60; i++) {
            lab.flip(address, random.nextLong(8 * bytes.byteSize()));
            assertThat(copy.digest(0)).isNotEqualTo(copy.expected(0));
            copy.restore();
            assertThat(copy.digest(0)).isEqualTo(copy.expected(0));
        }
        assertThat(restored).hasSize(60);
        assertThat(weights.copies()).as("to the same place").hasSize(1);
        assertThat(copy.source()).isSameAs(source);
        assertThat(copy.part()).isEqualTo("codes");
    }

    @Test
    void copiesOfEqualBytesHaveDigestsOfTheirOwn() {
        var weights = new CudaWeights(gpu, CudaDigestsTest::alone);
        MemorySegment bytes = bytes(CudaWeights.BLOCK_BYTES + 8);
        weights.upload(this, "first", bytes, () -> {});
        weights.upload(this, "second", bytes, () -> {});
        List<WeightCopy> copies = weights.copies();

        assertThat(copies.get(0).blocks()).isEqualTo(2);
        assertThat(copies.get(0).start(1)).isEqualTo(CudaWeights.BLOCK_BYTES);
        assertThat(copies.get(0).start(2)).isEqualTo(copies.get(0).bytes());
        assertThat(copies.get(0).expected(1)).isNotEqualTo(copies.get(1).expected(1));
        for (int block = 0; block < 2; block++) {
            assertThat(copies.get(1).digest(block)).isEqualTo(copies.get(1).expected(block));
        }
    }

    @Test
    void aCopyThatArrivesDamagedIsRefused() {
        var weights = new CudaWeights(gpu, (count, task) -> {
            // Whoever digests the source sees it whole; then a bit of it changes, on its way.
            alone(count, task);
            damaged.set(ValueLayout.JAVA_BYTE, 1_543, (byte) ~damaged.get(ValueLayout.JAVA_BYTE, 1_543));
        });
        MemorySegment bytes = bytes(4096);
        damaged = bytes;
        assertThatThrownBy(() -> weights.upload(this, "", bytes, () -> {}))
                .isInstanceOfSatisfying(BackendException.class, e -> assertThat(e.code()).isEqualTo("CUDA_COPY"))
                .hasMessageMatching(".*: weights copied to the device: expected bytes of the"
                        + " digest [0-9a-f]{16}, got [0-9a-f]{16}; start again, and replace this machine if it returns");
    }
}
