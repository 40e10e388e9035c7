package millrace.engine.kernel;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.SplittableRandom;
import millrace.engine.kernel.CacheMemory.Algorithm;
import millrace.engine.kernel.cpu.CpuKernels;
import millrace.engine.kernel.scalar.ScalarLoops;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class HostCacheTest {
    private static final int BYTES = 192;
    private static final int PAGES = 7;

    /// In batches too small for a team and large enough, over slabs that came in any order.
    @ParameterizedTest
    @EnumSource(Algorithm.class)
    void digestsOfABatchShouldBeThoseOfEachPage(Algorithm algorithm) {
        var random = new SplittableRandom(5);
        try (var kernels = new CpuKernels(new ScalarLoops(), 2);
                var cache = new HostCache(algorithm, kernels::forEach)) {
            byte[][] content = new byte[10 * PAGES][BYTES];
            long[] pages = new long[content.length];
            for (int i = 0; i < content.length; i++) {
                pages[i] = i % PAGES == 0 ? cache.allocate(BYTES * PAGES) : pages[i - 1] + BYTES;
                random.nextBytes(content[i]);
                cache.write(pages[i], MemorySegment.ofArray(content[i]));
            }
            for (int count : new int[] {1, 3, 7, 8, 31, 33, content.length}) {
                long[] some = new long[count];
                long[] tags = random.longs(count).toArray();
                long[] expected = new long[count];
                for (int i = 0; i < count; i++) {
                    int page = random.nextInt(content.length);
                    some[i] = pages[page];
                    ByteBuffer bytes = ByteBuffer.allocateDirect(BYTES).order(ByteOrder.LITTLE_ENDIAN).put(content[page]);
                    expected[i] = new PageDigest().of(algorithm, tags[i], bytes.clear(), 0, BYTES);
                }
                long[] digests = new long[count];
                cache.digest(count, some, BYTES, tags, digests);
                assertThat(digests).as("%d pages", count).isEqualTo(expected);
            }
        }
    }

    @Test
    void aPageOfAnotherMemoryShouldBeRefused() {
        try (var cache = new HostCache(); var other = new HostCache()) {
            long page = cache.allocate(BYTES);
            long foreign = other.allocate(BYTES);
            assertThatThrownBy(() -> cache.keepsBits(foreign, BYTES))
                    .isInstanceOf(IllegalArgumentException.class)
                    .hasMessage("KV cache: no page of this memory at " + Long.toHexString(foreign));
            assertThat(cache.keepsBits(page, BYTES)).isTrue();
            byte[] left = new byte[BYTES];
            cache.read(page, MemorySegment.ofArray(left));
            assertThat(left).as("the complement of the pattern").containsOnly((byte) 0xAA);
        }
    }
}
