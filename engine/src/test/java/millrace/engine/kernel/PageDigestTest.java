package millrace.engine.kernel;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashSet;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.zip.CRC32C;
import millrace.engine.kernel.CacheMemory.Algorithm;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class PageDigestTest {
    private static final int BYTES = 512;

    @Test
    void w64HasItsVector() {
        ByteBuffer words = ByteBuffer.allocateDirect(16).order(ByteOrder.LITTLE_ENDIAN);
        words.putInt(0).putInt(1).putInt(0xFFFF_FFFF).putInt(0x8000_0000);
        assertThat(PageDigest.w64(0x0123456789ABCDEFL, 0, words, 0, 16)).isEqualTo(0x95549C8B3CA70DCCL);
        long parts = PageDigest.w64(0x0123456789ABCDEFL, 0, words, 0, 4) + PageDigest.w64(0x0123456789ABCDEFL, 1, words, 4, 12);
        assertThat(parts).as("the sum of its parts").isEqualTo(0x95549C8B3CA70DCCL);
    }

    @Test
    void crc32cIsOfTheTagAndThePage() {
        ByteBuffer page = random(1);
        var crc = new CRC32C();
        crc.update(new byte[] {8, 7, 6, 5, 4, 3, 2, 1});
        for (int i = 0; i < BYTES; i++) {
            crc.update(page.get(i));
        }
        assertThat(new PageDigest().of(Algorithm.CRC32C, 0x0102030405060708L, page, 0, BYTES))
                .isEqualTo(crc.getValue());
    }

    @ParameterizedTest
    @EnumSource(Algorithm.class)
    void everySingleBitCounts(Algorithm algorithm) {
        PageDigest digest = new PageDigest();
        ByteBuffer page = random(4);
        Set<Long> digests = new HashSet<>();
        digests.add(digest.of(algorithm, 77, page, 0, BYTES));
        for (int bit = 0; bit < 8 * BYTES; bit++) {
            page.put(bit / 8, (byte) (page.get(bit / 8) ^ 1 << bit % 8));
            assertThat(digests.add(digest.of(algorithm, 77, page, 0, BYTES))).as("bit " + bit).isTrue();
            page.put(bit / 8, (byte) (page.get(bit / 8) ^ 1 << bit % 8));
        }
        for (int bit = 0; bit < 64; bit++) {
            assertThat(digests.add(digest.of(algorithm, 77 ^ 1L << bit, page, 0, BYTES))).as("bit " + bit + " of the tag").isTrue();
        }
    }

    @ParameterizedTest
    @EnumSource(Algorithm.class)
    void aDigestIsOfThePageAlone(Algorithm algorithm) {
        PageDigest digest = new PageDigest();
        ByteBuffer slab = ByteBuffer.allocateDirect(3 * BYTES).order(ByteOrder.LITTLE_ENDIAN);
        ByteBuffer page = random(9);
        slab.put(BYTES, page, 0, BYTES);
        long expected = digest.of(algorithm, 5, slab, BYTES, BYTES);
        assertThat(expected).isEqualTo(digest.of(algorithm, 5, page, 0, BYTES));
        slab.clear().put(BYTES - 1, (byte) 1).put(2 * BYTES, (byte) 1);
        assertThat(digest.of(algorithm, 5, slab.clear(), BYTES, BYTES)).isEqualTo(expected);
    }

    @Test
    void numbersOfTheAlgorithmsStay() {
        assertThat(Algorithm.CRC32C.id()).isOne();
        assertThat(Algorithm.W64.id()).isEqualTo(2);
    }

    private static ByteBuffer random(long seed) {
        byte[] bytes = new byte[BYTES];
        new SplittableRandom(seed).nextBytes(bytes);
        return ByteBuffer.allocateDirect(BYTES).order(ByteOrder.LITTLE_ENDIAN).put(bytes).clear();
    }
}
