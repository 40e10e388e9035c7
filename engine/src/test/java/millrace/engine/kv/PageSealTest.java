package millrace.engine.kv;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.security.MessageDigest;
import java.util.HashSet;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class PageSealTest {
    private static final int BYTES = 512;

    @Test
    void w64HasItsVector() {
        ByteBuffer words = ByteBuffer.allocateDirect(16).order(ByteOrder.LITTLE_ENDIAN);
        words.putInt(0).putInt(1).putInt(0xFFFF_FFFF).putInt(0x8000_0000);
        assertThat(PageSeal.w64(0x0123456789ABCDEFL, words, 0, 16)).isEqualTo(0x95549C8B3CA70DCCL);
    }

    @Test
    void crc32cIsOfTheTagAndThePage() {
        ByteBuffer page = random(1);
        var crc = new CRC32C();
        crc.update(new byte[] {8, 7, 6, 5, 4, 3, 2, 1});
        for (int i = 0; i < BYTES; i++) {
            crc.update(page.get(i));
        }
        assertThat(new PageSeal(PageGuard.Algorithm.CRC32C).digest(0x0102030405060708L, page, 0, BYTES))
                .isEqualTo(crc.getValue());
    }

    @Test
    void idTagIsTheBeginningOfAHash() throws Exception {
        long[] chain = new SplittableRandom(3).longs(12).toArray();
        ByteBuffer in = ByteBuffer.allocate(40);
        for (int i = 8; i < 12; i++) {
            in.putLong(chain[i]);
        }
        in.order(ByteOrder.LITTLE_ENDIAN).putInt(5).putInt(1);
        byte[] hash = MessageDigest.getInstance("SHA-256").digest(in.array());
        assertThat(new PageSeal(PageGuard.Algorithm.CRC32C).idTag(chain, 1, 5)).isEqualTo(ByteBuffer.wrap(hash).getLong());
    }

    @ParameterizedTest
    @EnumSource(PageGuard.Algorithm.class)
    void everySingleBitCounts(PageGuard.Algorithm algorithm) {
        PageSeal seal = new PageSeal(algorithm);
        ByteBuffer page = random(4);
        Set<Long> digests = new HashSet<>();
        digests.add(seal.digest(77, page, 0, BYTES));
        for (int bit = 0; bit < 8 * BYTES; bit++) {
            page.put(bit / 8, (byte) (page.get(bit / 8) ^ 1 << bit % 8));
            assertThat(digests.add(seal.digest(77, page, 0, BYTES))).as("bit " + bit).isTrue();
            page.put(bit / 8, (byte) (page.get(bit / 8) ^ 1 << bit % 8));
        }
        for (int bit = 0; bit < 64; bit++) {
            assertThat(digests.add(seal.digest(77 ^ 1L << bit, page, 0, BYTES))).as("bit " + bit + " of the tag").isTrue();
        }
    }

    @ParameterizedTest
    @EnumSource(PageGuard.Algorithm.class)
    void aDigestIsOfThePageAloneAndNeverPoison(PageGuard.Algorithm algorithm) {
        PageSeal seal = new PageSeal(algorithm);
        ByteBuffer slab = ByteBuffer.allocateDirect(3 * BYTES).order(ByteOrder.LITTLE_ENDIAN);
        ByteBuffer page = random(9);
        slab.put(BYTES, page, 0, BYTES);
        long digest = seal.digest(5, slab, BYTES, BYTES);
        assertThat(digest).isEqualTo(seal.digest(5, page, 0, BYTES)).isNotEqualTo(PageSeal.POISON);
        slab.clear().put(BYTES - 1, (byte) 1).put(2 * BYTES, (byte) 1);
        assertThat(seal.digest(5, slab.clear(), BYTES, BYTES)).isEqualTo(digest);
    }

    @Test
    void numbersOfTheAlgorithmsStay() {
        assertThat(PageGuard.Algorithm.CRC32C.id()).isOne();
        assertThat(PageGuard.Algorithm.W64.id()).isEqualTo(2);
    }

    private static ByteBuffer random(long seed) {
        byte[] bytes = new byte[BYTES];
        new SplittableRandom(seed).nextBytes(bytes);
        return ByteBuffer.allocateDirect(BYTES).order(ByteOrder.LITTLE_ENDIAN).put(bytes).clear();
    }
}
