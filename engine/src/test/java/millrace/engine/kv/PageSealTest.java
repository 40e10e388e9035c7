package millrace.engine.kv;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.security.MessageDigest;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class PageSealTest {
    @Test
    void idTagIsTheBeginningOfAHash() throws Exception {
        long[] chain = new SplittableRandom(3).longs(12).toArray();
        ByteBuffer in = ByteBuffer.allocate(40);
        for (int i = 8; i < 12; i++) {
            in.putLong(chain[i]);
        }
        in.order(ByteOrder.LITTLE_ENDIAN).putInt(5).putInt(1);
        byte[] hash = MessageDigest.getInstance("SHA-256").digest(in.array());
        assertThat(new PageSeal().idTag(chain, 1, 5)).isEqualTo(ByteBuffer.wrap(hash).getLong());
    }

    @Test
    void aDigestIsNeverThatOfAPageWithoutOne() {
        assertThat(PageSeal.kept(PageSeal.POISON)).isZero();
        assertThat(PageSeal.kept(0)).isZero();
        assertThat(PageSeal.kept(0xFFFF_FFFFL)).isEqualTo(0xFFFF_FFFFL);
        assertThat(PageSeal.kept(Long.MIN_VALUE)).isEqualTo(Long.MIN_VALUE);
    }
}
