package millrace.engine.kv;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.stream.IntStream;
import millrace.engine.KvFormat;
import org.junit.jupiter.api.Test;

/// Pages that have a part of a draft layer: their names look one token ahead.
class DraftedPagesTest {
    private static final KvLayout LAYOUT = KvLayout.grouped(KvFormat.F32, 1, 1, 16);

    @Test
    void namesThatLookAheadFollowTheirDefinition() throws NoSuchAlgorithmException {
        int[] ids = IntStream.range(1000, 1033).toArray();
        var key = new PrefixKey("salt");
        key.reach(ChainHash.sha256("model", 1), 1, ids);
        MessageDigest sha = MessageDigest.getInstance("SHA-256");
        byte[] identity = sha.digest("model".getBytes(StandardCharsets.UTF_8));
        byte[] salt = sha.digest("salt".getBytes(StandardCharsets.UTF_8));
        sha.update("millrace/kv/v1\0".getBytes(StandardCharsets.UTF_8));
        sha.update(identity);
        byte[] name = sha.digest(salt);
        for (int[] range : new int[][] {{0, 17}, {17, 33}}) {
            ByteBuffer in = ByteBuffer.allocate(32 + 4 * (range[1] - range[0])).put(name).order(ByteOrder.LITTLE_ENDIAN);
            IntStream.range(range[0], range[1]).forEach(i -> in.putInt(ids[i]));
            name = sha.digest(in.array());
            ByteBuffer words = ByteBuffer.wrap(name);
            for (int w = 0; w < 4; w++) {
                assertThat(key.word(range[0] == 0 ? 0 : 1, w)).isEqualTo(words.getLong());
            }
        }
    }

    /// What a draft layer keeps of a page's last token depends on the token behind it.
    @Test
    void whereADraftLayerIsKeptAPageIsSharedOnlyIfTheTokenBehindItIsTheSame() {
        KvLayout drafted = LAYOUT.withDraftLayer();
        for (boolean constant : new boolean[] {false, true}) {
            var pool = new PagePool(drafted, 12 * drafted.pageBytes());
            if (constant) {
                pool.openIndex(new PrefixIndexTest.Constant(1));
            } else {
                pool.openIndex("test");
            }
            int[] ids = IntStream.range(0, 49).toArray();
            var holder = new PageTable(pool);
            assertThat(holder.ensure(48)).isTrue();
            holder.seal(new PrefixKey(""), ids, 48);
            assertThat(sharing(pool, ids, -1)).isEqualTo(3);
            int[] shared = {0, 0, 1, 1, 2, 2, 3};
            int[] changed = {0, 16, 17, 32, 33, 48};
            for (int i = 0; i < changed.length; i++) {
                assertThat(sharing(pool, ids, changed[i])).as("token %d is another", changed[i]).isEqualTo(shared[i]);
            }
            // A key that outlives tokens forgets the names that they were part of.
            var key = new PrefixKey("");
            int[] other = ids.clone();
            other[32] = -1;
            assertThat(pool.index().heldPages(key, other, 2)).isOne();
            key.keep(32);
            assertThat(pool.index().heldPages(key, ids, 3)).isEqualTo(3);
        }
    }

    /// Pages that the draft layer was not fed with serve who is not fed either, and nobody else; whole ones serve both.
    @Test
    void pagesWithoutTheirPartOfTheDraftLayerAreOthers() {
        KvLayout drafted = LAYOUT.withDraftLayer();
        for (boolean constant : new boolean[] {false, true}) {
            var pool = new PagePool(drafted, 12 * drafted.pageBytes());
            PageGuard guard = null;
            if (constant) {
                pool.openIndex(new PrefixIndexTest.Constant(1));
            } else {
                guard = pool.openGuard(new PageGuard.Settings("test", 0, System::nanoTime, System::currentTimeMillis));
                pool.openIndex("test");
            }
            int[] ids = IntStream.range(0, 65).toArray();
            var whole = new PrefixKey("");
            var holder = new PageTable(pool);
            assertThat(holder.ensure(32)).isTrue();
            holder.seal(whole, ids, 32);

            // Goes on behind the whole pages; its third page is full without the token behind it.
            var undrafted = new PageTable(pool);
            assertThat(undrafted.adopt(new PrefixKey("").undrafted(), ids, 2, true)).isEqualTo(2);
            assertThat(undrafted.ensure(48)).isTrue();
            undrafted.seal(new PrefixKey("").undrafted(), java.util.Arrays.copyOf(ids, 48), 48);
            assertThat(undrafted.sealedTokens()).isEqualTo(48);
            assertThat(pool.index().heldPages(new PrefixKey("").undrafted(), ids, 4)).isEqualTo(3);
            assertThat(pool.index().heldPages(whole, ids, 4)).isEqualTo(2);
            assertThat(pool.index().heldPages(new PrefixKey("another").undrafted(), ids, 4)).isZero();

            // Whoever is fed computes the third page itself, and does not give it up for the other.
            var fed = new PageTable(pool);
            assertThat(fed.adopt(whole, ids, 4, true)).isEqualTo(2);
            assertThat(fed.ensure(48)).isTrue();
            fed.seal(whole, ids, 48);
            assertThat(fed.page(2)).isNotEqualTo(undrafted.page(2));
            assertThat(pool.index().heldPages(whole, ids, 4)).isEqualTo(3);

            if (guard != null) {
                guard.beforeStep(1);
                assertThat(undrafted.verify(guard, PageGuard.Moment.READ)).isEqualTo(Long.MAX_VALUE);
                assertThat(fed.verify(guard, PageGuard.Moment.READ)).isEqualTo(Long.MAX_VALUE);
            }
            java.util.stream.Stream.of(fed, undrafted, holder).forEach(PageTable::release);
            assertThat(pool.freePages()).isEqualTo(12);
            pool.close();
        }
    }

    /// Names of pages that lack the draft layer's part cover their own tokens, and begin elsewhere.
    @Test
    void namesWithoutTheDraftLayerFollowTheirDefinition() throws NoSuchAlgorithmException {
        int[] ids = IntStream.range(1000, 1016).toArray();
        PrefixKey key = new PrefixKey("salt").undrafted();
        key.reach(ChainHash.sha256("model", 1), 0, ids);
        MessageDigest sha = MessageDigest.getInstance("SHA-256");
        byte[] identity = sha.digest("model".getBytes(StandardCharsets.UTF_8));
        byte[] salt = sha.digest("salt".getBytes(StandardCharsets.UTF_8));
        sha.update("millrace/kv/v1\0".getBytes(StandardCharsets.UTF_8));
        sha.update(identity);
        sha.update(salt);
        ByteBuffer in = ByteBuffer.allocate(32 + 64).put(sha.digest("undrafted".getBytes(StandardCharsets.UTF_8)))
                .order(ByteOrder.LITTLE_ENDIAN);
        IntStream.of(ids).forEach(in::putInt);
        assertThat(key.word(0, 0)).isEqualTo(ByteBuffer.wrap(sha.digest(in.array())).getLong());
    }

    private static int sharing(PagePool pool, int[] ids, int changed) {
        int[] other = ids.clone();
        if (changed >= 0) {
            other[changed] = -1;
        }
        return pool.index().heldPages(new PrefixKey(""), other, 3);
    }

    @Test
    void aDraftLayerIsOneLayerMore() {
        KvLayout drafted = KvLayout.latent(KvFormat.INT8, 3, 128, 16).withDraftLayer();
        assertThat(drafted.layers()).isEqualTo(4);
        assertThat(drafted.drafted()).isTrue();
        assertThat(drafted.pageBytes()).isEqualTo(KvLayout.latent(KvFormat.INT8, 4, 128, 16).pageBytes());
        assertThat(drafted.withIndex(KvFormat.INT8, 2, 32).drafted()).isTrue();
    }
}
