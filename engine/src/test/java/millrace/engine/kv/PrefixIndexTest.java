package millrace.engine.kv;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.stream.IntStream;
import millrace.engine.KvFormat;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class PrefixIndexTest {
    private static final KvLayout LAYOUT = KvLayout.grouped(KvFormat.F32, 1, 1, 16);

    /// Every name is the same: only the comparison of what pages hold keeps them apart.
    private static final ChainHash CONSTANT = new Constant(0);

    record Constant(int ahead) implements ChainHash {
        @Override
        public long[] root(String salt, boolean undrafted) {
            return new long[WORDS];
        }

        @Override
        public void next(long[] chain, int k, int[] tokens, int from, int to) {
            for (int i = 0; i < WORDS; i++) {
                chain[WORDS * (k + 1) + i] = 42;
            }
        }
    }

    private final List<PagePool> pools = new ArrayList<>();

    @AfterEach
    void close() {
        pools.forEach(PagePool::close);
    }

    private PagePool pool(int pages, ChainHash hash) {
        PagePool pool = new PagePool(LAYOUT, pages * LAYOUT.pageBytes());
        pool.openIndex(hash);
        pools.add(pool);
        return pool;
    }

    private PagePool pool(int pages) {
        return pool(pages, ChainHash.sha256("test"));
    }

    /// A table that has computed these tokens.
    private static PageTable computed(PagePool pool, String salt, int... tokens) {
        var table = new PageTable(pool);
        var key = new PrefixKey(salt);
        int hit = table.adopt(key, tokens, tokens.length / 16, false);
        assertThat(table.sealedTokens()).isEqualTo(16 * hit);
        assertThat(table.ensure(tokens.length)).isTrue();
        table.seal(key, tokens, tokens.length);
        return table;
    }

    private static int hits(PagePool pool, String salt, int... tokens) {
        var table = new PageTable(pool);
        int hits = table.adopt(new PrefixKey(salt), tokens, tokens.length / 16, false);
        table.release();
        return hits;
    }

    /// Pages of 16 equal tokens, for `aab`: two of `a`, one of `b`.
    private static int[] tokens(String pages) {
        return pages.chars().flatMap(c -> IntStream.generate(() -> c).limit(16)).toArray();
    }

    @Test
    void sharesFullPagesOfEqualTokens() {
        PagePool pool = pool(8);
        PageTable first = computed(pool, "", IntStream.range(0, 40).toArray());
        assertThat(first.sealedTokens()).isEqualTo(32);
        int[] other = IntStream.range(0, 48).toArray();
        other[20] = 99;
        PageTable second = computed(pool, "", other);
        assertThat(second.page(0)).isEqualTo(first.page(0));
        assertThat(second.epoch(0)).isEqualTo(first.epoch(0));
        assertThat(second.addresses()[0]).isEqualTo(first.addresses()[0]);
        assertThat(second.page(1)).isNotEqualTo(first.page(1));
        assertThat(pool.holders(first.page(0))).isEqualTo(2);
        assertThat(pool.freePages()).isEqualTo(8 - 5);
        first.release();
        assertThat(pool.holders(second.page(0))).isOne();
        assertThat(pool.freePages()).isEqualTo(8 - 3);
        second.release();
        assertThat(pool.freePages()).isEqualTo(8);
        assertThat(pool.index().pages()).isEqualTo(4);
        assertThat(pool.index().hitTokens()).isEqualTo(16);
    }

    @Test
    void aTableTakesNoMorePagesThanItIsTold() {
        PagePool pool = pool(8);
        computed(pool, "", tokens("abcd")).release();
        var table = new PageTable(pool);
        var key = new PrefixKey("");
        assertThat(table.adopt(key, tokens("abcd"), 2, false)).isEqualTo(2);
        assertThat(table.adopt(key, tokens("abcd"), 3, false)).isOne();
        assertThat(table.length()).isEqualTo(48);
        assertThat(table.ensure(49)).isTrue();
        assertThat(table.adopt(key, tokens("abcd"), 4, false)).as("behind a page of its own").isZero();
    }

    @Test
    void saltsShareNothing() {
        for (ChainHash hash : List.of(ChainHash.sha256("test"), CONSTANT)) {
            PagePool pool = pool(8, hash);
            computed(pool, "tenant a", tokens("ab")).release();
            assertThat(hits(pool, "tenant a", tokens("ab"))).isEqualTo(2);
            assertThat(hits(pool, "tenant b", tokens("ab"))).isZero();
            assertThat(hits(pool, "", tokens("ab"))).isZero();
            computed(pool, "tenant b", tokens("ac")).release();
            assertThat(hits(pool, "tenant b", tokens("ab"))).isOne();
        }
    }

    @Test
    void aHashThatCollidesFindsNothingForeign() {
        PagePool pool = pool(20, CONSTANT);
        computed(pool, "", tokens("abc")).release();
        assertThat(hits(pool, "", tokens("xbc"))).isZero();
        assertThat(hits(pool, "", tokens("axc"))).isOne();
        assertThat(hits(pool, "", tokens("bc"))).as("equal tokens behind others").isZero();
        computed(pool, "", tokens("xbc")).release();
        computed(pool, "", tokens("bcc")).release();
        assertThat(hits(pool, "", tokens("abc"))).isEqualTo(3);
        assertThat(hits(pool, "", tokens("xbc"))).isEqualTo(3);
        assertThat(hits(pool, "", tokens("bcc"))).isEqualTo(3);
        assertThat(pool.index().pages()).isEqualTo(9);
    }

    @Test
    void evictsWhatWasIdleLongestFromTheEndOfItsChain() {
        PagePool pool = pool(6);
        computed(pool, "", tokens("abc")).release();
        computed(pool, "", tokens("xyz")).release();
        assertThat(hits(pool, "", tokens("abc"))).as("makes it the youngest").isEqualTo(3);
        var other = new PageTable(pool);
        int[] left = {2, 1, 0, 0, 0, 0};
        int[] leftOfUsed = {3, 3, 3, 2, 1, 0};
        for (int taken = 1; taken <= 6; taken++) {
            assertThat(pool.freePages()).isEqualTo(7 - taken);
            assertThat(other.ensure(16 * taken)).isTrue();
            assertThat(pool.index().evictions()).isEqualTo(taken);
            // Looked at without touching: the order must stay.
            assertThat(found(pool, tokens("xyz"))).as("after %d", taken).isEqualTo(left[taken - 1]);
            assertThat(found(pool, tokens("abc"))).as("after %d", taken).isEqualTo(leftOfUsed[taken - 1]);
        }
        assertThat(other.ensure(16 * 7)).isFalse();
        other.release();
        assertThat(pool.freePages()).isEqualTo(6);
        assertThat(pool.index().pages()).isZero();
    }

    private static int found(PagePool pool, int[] tokens) {
        var key = new PrefixKey("");
        int before = PagePool.NONE;
        for (int i = 0; i < tokens.length / 16; i++) {
            before = pool.index().find(key, i, before, tokens);
            if (before == PagePool.NONE) {
                return i;
            }
        }
        return tokens.length / 16;
    }

    @Test
    void anEvictedPageHasAnotherEpoch() {
        PagePool pool = pool(1);
        PageTable first = computed(pool, "", tokens("a"));
        int epoch = first.epoch(0);
        first.release();
        PageTable second = computed(pool, "", tokens("b"));
        assertThat(second.page(0)).isEqualTo(first.page(0));
        assertThat(second.epoch(0)).isNotEqualTo(epoch);
        assertThat(hits(pool, "", tokens("a"))).isZero();
    }

    @Test
    void whoFillsAPageSecondTakesTheFirstOne() {
        PagePool pool = pool(8);
        int[] ids = tokens("ab");
        var keys = List.of(new PrefixKey(""), new PrefixKey(""));
        var tables = List.of(new PageTable(pool), new PageTable(pool));
        tables.forEach(table -> assertThat(table.ensure(32)).isTrue());
        assertThat(tables.get(0).page(0)).isNotEqualTo(tables.get(1).page(0));
        tables.get(1).seal(keys.get(1), ids, 20);
        tables.get(0).seal(keys.get(0), ids, 32);
        tables.get(1).seal(keys.get(1), ids, 32);
        for (int page = 0; page < 2; page++) {
            assertThat(tables.get(0).page(page)).isEqualTo(tables.get(1).page(page));
            assertThat(tables.get(0).epoch(page)).isEqualTo(tables.get(1).epoch(page));
            assertThat(tables.get(0).addresses()[page]).isEqualTo(tables.get(1).addresses()[page]);
            assertThat(pool.holders(tables.get(0).page(page))).isEqualTo(2);
        }
        assertThat(pool.freePages()).isEqualTo(6);
        tables.forEach(PageTable::release);
        assertThat(pool.freePages()).isEqualTo(8);
        assertThat(pool.index().pages()).isEqualTo(2);
    }

    @Test
    void pagesInDoubtLeaveWithAllThatFollowThem() {
        PagePool pool = pool(12);
        PageTable suspect = computed(pool, "", tokens("abc"));
        PageTable sharer = computed(pool, "", tokens("abx"));
        computed(pool, "", tokens("ay")).release();
        computed(pool, "", tokens("q")).release();
        suspect.forget();
        for (String chain : List.of("abc", "abx", "ay")) {
            assertThat(hits(pool, "", tokens(chain))).isZero();
        }
        assertThat(hits(pool, "", tokens("q"))).isOne();
        assertThat(pool.freePages()).isEqualTo(12 - 4);
        var key = new PrefixKey("");
        int[] longer = tokens("abxz");
        assertThat(sharer.ensure(64)).isTrue();
        sharer.seal(key, longer, 64);
        assertThat(sharer.adopt(key, tokens("abxzz"), 5, false)).isZero();
        assertThat(hits(pool, "", longer)).as("what follows a page in doubt").isZero();
        suspect.forget();
        suspect.release();
        sharer.release();
        assertThat(pool.freePages()).isEqualTo(12);
        computed(pool, "", tokens("abx")).release();
        assertThat(hits(pool, "", tokens("abxz"))).as("computed anew").isEqualTo(3);
    }

    @Test
    void clearLetsGoOfEverything() {
        PagePool pool = pool(8);
        PageTable held = computed(pool, "", tokens("ab"));
        computed(pool, "s", tokens("cd")).release();
        pool.index().clear();
        assertThat(pool.index().pages()).isZero();
        assertThat(pool.freePages()).isEqualTo(6);
        held.release();
        assertThat(pool.freePages()).isEqualTo(8);
        var all = new PageTable(pool);
        assertThat(all.ensure(16 * 8)).isTrue();
        assertThat(pool.index().evictions()).isZero();
    }

    @Test
    void countsThePagesThatTakeNoRoom() {
        PagePool pool = pool(8);
        computed(pool, "", tokens("abc")).release();
        var key = new PrefixKey("");
        assertThat(pool.index().heldPages(key, tokens("abcd"), 4)).as("idle pages take room").isZero();
        PageTable holder = new PageTable(pool);
        holder.adopt(new PrefixKey(""), tokens("ab"), 2, false);
        assertThat(pool.index().heldPages(key, tokens("abcd"), 4)).isEqualTo(2);
        assertThat(pool.index().heldPages(key, tokens("abcd"), 1)).isOne();
    }

    @Test
    void opensOnceAndBeforeUse() {
        PagePool pool = pool(2);
        String expected = "KV cache: expected one index, opened before the first page is handed out";
        assertThatThrownBy(() -> pool.openIndex("again")).hasMessage(expected);
        var late = new PagePool(LAYOUT, LAYOUT.pageBytes());
        pools.add(late);
        new PageTable(late).ensure(1);
        assertThatThrownBy(() -> late.openIndex("late")).hasMessage(expected);
    }

    @Test
    void namesFollowTheirDefinition() throws NoSuchAlgorithmException {
        int[] ids = IntStream.range(1000, 1032).toArray();
        var key = new PrefixKey("salt");
        key.reach(ChainHash.sha256("model"), 1, ids);
        MessageDigest sha = MessageDigest.getInstance("SHA-256");
        byte[] identity = sha.digest("model".getBytes(StandardCharsets.UTF_8));
        byte[] salt = sha.digest("salt".getBytes(StandardCharsets.UTF_8));
        sha.update("millrace/kv/v1\0".getBytes(StandardCharsets.UTF_8));
        sha.update(identity);
        byte[] name = sha.digest(salt);
        for (int page = 0; page < 2; page++) {
            ByteBuffer in = ByteBuffer.allocate(96).put(name).order(ByteOrder.LITTLE_ENDIAN);
            for (int i = 0; i < 16; i++) {
                in.putInt(ids[16 * page + i]);
            }
            name = sha.digest(in.array());
            ByteBuffer words = ByteBuffer.wrap(name);
            for (int w = 0; w < 4; w++) {
                assertThat(key.word(page, w)).isEqualTo(words.getLong());
            }
        }
        assertThat(HexFormat.of().formatHex(name)).isEqualTo("af17ca14b8ae6ffeee6c4b8e3a19ecb66357e93b306d117790bd80d8f277351d");
    }

    @Test
    void trimmedTablesGiveBackWhatTheyDoNotNeed() {
        PagePool pool = pool(8);
        PageTable table = computed(pool, "", tokens("abc"));
        assertThat(table.ensure(16 * 5)).isTrue();
        assertThat(table.trim(16 * 3 + 1)).isTrue();
        assertThat(pool.freePages()).isEqualTo(4);
        assertThat(table.length()).isEqualTo(16 * 4);
        assertThat(table.trim(16 * 3 + 1)).isFalse();
        assertThat(table.trim(1)).as("sealed pages stay").isTrue();
        assertThat(table.pageCount()).isEqualTo(3);
        assertThat(hits(pool, "", tokens("abcd"))).isEqualTo(3);
        table.release();
        assertThat(pool.freePages()).isEqualTo(8);
    }

    /// Random tables against a model of what each page holds; free pages can always be had.
    @Test
    void everyHitHoldsWhatItsNameSaysUnderChurn() {
        for (long seed = 1; seed <= 30; seed++) {
            var random = new SplittableRandom(seed);
            int ahead = seed % 3 == 0 ? 1 : 0;
            PagePool pool = pool(
                    5 + random.nextInt(40), seed % 5 == 0 ? new Constant(ahead) : ChainHash.sha256("churn", ahead));
            new Churn(random, pool, ahead, "seed " + seed).run();
        }
    }

    private static final class Churn {
        private final SplittableRandom random;
        private final PagePool pool;
        private final int ahead;
        private final String name;
        private final Map<Integer, List<Integer>> content = new HashMap<>();
        private final List<Live> live = new ArrayList<>();

        private record Live(PageTable table, PrefixKey key, String salt, int[] tokens) {}

        Churn(SplittableRandom random, PagePool pool, int ahead, String name) {
            this.ahead = ahead;
            this.random = random;
            this.pool = pool;
            this.name = name;
        }

        void run() {
            for (int step = 0; step < 600; step++) {
                switch (random.nextInt(10)) {
                    case 0, 1, 2, 3 -> begin();
                    case 4, 5, 6 -> end();
                    case 7 -> {
                        if (!live.isEmpty() && random.nextInt(4) == 0) {
                            live.get(random.nextInt(live.size())).table().forget();
                        }
                    }
                    case 8 -> takeAllFreePages();
                    default -> {
                        if (random.nextInt(30) == 0) {
                            pool.index().clear();
                        }
                    }
                }
                check();
            }
            live.forEach(one -> one.table().release());
            live.clear();
            check();
            assertThat(pool.freePages()).isEqualTo(pool.pageCount());
            pool.index().clear();
            takeAllFreePages();
        }

        private void begin() {
            String salt = random.nextInt(4) == 0 ? "b" : "a";
            int[] tokens = new int[16 * (1 + random.nextInt(5)) + random.nextInt(16)];
            for (int i = 0; i < tokens.length; i++) {
                tokens[i] = i % 16 == 3 ? random.nextInt(2) : i;
            }
            var one = new Live(new PageTable(pool), new PrefixKey(salt), salt, tokens);
            int hits = one.table().adopt(one.key(), tokens, (tokens.length - 1) / 16, false);
            for (int i = 0; i < hits; i++) {
                assertThat(content.get(one.table().page(i))).as(name).isEqualTo(holds(one, i));
            }
            int complete = tokens.length - ahead;
            if (!one.table().ensure(tokens.length)) {
                one.table().release();
                return;
            }
            for (int i = hits; i < complete / 16; i++) {
                content.put(one.table().page(i), holds(one, i));
            }
            one.table().seal(one.key(), tokens, complete);
            live.add(one);
        }

        private List<Integer> holds(Live one, int page) {
            List<Integer> all = new ArrayList<>(List.of(one.salt().hashCode()));
            for (int i = 0; i < 16 * (page + 1) + ahead; i++) {
                all.add(one.tokens()[i]);
            }
            return all;
        }

        private void end() {
            if (!live.isEmpty()) {
                live.remove(random.nextInt(live.size())).table().release();
            }
        }

        private void takeAllFreePages() {
            int free = pool.freePages();
            var all = new PageTable(pool);
            assertThat(all.ensure(16 * free)).as(name).isTrue();
            assertThat(all.ensure(16 * free + 1)).as(name).isFalse();
            assertThat(pool.freePages()).isZero();
            for (int i = 0; i < free; i++) {
                content.remove(all.page(i));
            }
            all.release();
            assertThat(pool.freePages()).isEqualTo(free);
        }

        private void check() {
            Map<Integer, Integer> holders = new HashMap<>();
            for (Live one : live) {
                for (int i = 0; i < one.table().pageCount(); i++) {
                    holders.merge(one.table().page(i), 1, Integer::sum);
                    assertThat(one.table().epoch(i)).as(name).isEqualTo(pool.epoch(one.table().page(i)));
                    if (i < (one.tokens().length - ahead) / 16) {
                        assertThat(content.get(one.table().page(i))).as(name).isEqualTo(holds(one, i));
                    }
                }
            }
            holders.forEach((page, count) -> assertThat(pool.holders(page)).as(name).isEqualTo(count));
            assertThat(pool.freePages()).as(name).isEqualTo(pool.pageCount() - holders.size());
        }
    }
}
