package millrace.engine.kv;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.IntConsumer;
import millrace.engine.KvFormat;
import millrace.engine.kernel.ApartCache;
import millrace.engine.kernel.CacheMemory;
import millrace.engine.kernel.CacheMemory.Algorithm;
import millrace.engine.kernel.HostCache;
import millrace.engine.kv.PageGuard.Moment;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

class PageGuardTest {
    private static final KvLayout LAYOUT = KvLayout.grouped(KvFormat.INT8, 2, 1, 16).withIndex(KvFormat.INT8, 1, 16);
    private static final int INJECTIONS = 10_000;
    private static final long MAX_AGE = 60_000_000_000L;
    private static final long DAY_MS = 24L * 3_600_000;

    private long nanos;
    private long epochMs;
    private long steps;
    private PagePool pool = pool("model int8", Algorithm.CRC32C);

    private PagePool pool(String identity, Algorithm algorithm) {
        var created = new PagePool(LAYOUT, 40 * LAYOUT.pageBytes(), memory(algorithm));
        created.openGuard(new PageGuard.Settings(identity, MAX_AGE, () -> nanos, () -> epochMs));
        created.openIndex(identity);
        return created;
    }

    /// That of a processor, and one that only operations of a device could reach.
    private static CacheMemory memory(Algorithm algorithm) {
        return switch (algorithm) {
            case CRC32C -> new HostCache(algorithm, PageGuardTest::backwards);
            case W64 -> new ApartCache(algorithm, PageGuardTest::backwards);
        };
    }

    private static void backwards(int count, IntConsumer task) {
        for (int i = count - 1; i >= 0; i--) {
            task.accept(i);
        }
    }

    @AfterEach
    void close() {
        pool.close();
    }

    private PageGuard guard() {
        return java.util.Objects.requireNonNull(pool.guard());
    }

    /// A table whose pages hold random bytes and are sealed as those of these tokens.
    private PageTable filled(PrefixKey key, int[] tokens, SplittableRandom random) {
        var table = new PageTable(pool);
        table.adopt(key, tokens, tokens.length / 16, false);
        int adopted = table.pageCount();
        assertThat(table.ensure(tokens.length)).isTrue();
        for (int i = adopted; i < table.pageCount(); i++) {
            byte[] bytes = new byte[(int) LAYOUT.pageBytes()];
            random.nextBytes(bytes);
            pool.memory().write(pool.address(table.page(i)), MemorySegment.ofArray(bytes));
        }
        table.seal(key, tokens, tokens.length);
        guard().settle();
        return table;
    }

    private int hits(int[] tokens) {
        PageTable table = new PageTable(pool);
        int hits = table.adopt(new PrefixKey(""), tokens, tokens.length / 16, false);
        table.release();
        return hits;
    }

    private byte[] bytes(int page) {
        byte[] bytes = new byte[(int) LAYOUT.pageBytes()];
        pool.memory().read(pool.address(page), MemorySegment.ofArray(bytes));
        return bytes;
    }

    private static int[] tokens(SplittableRandom random, int count) {
        return random.ints(count, 0, 1_000).toArray();
    }

    @ParameterizedTest
    @EnumSource(Algorithm.class)
    void everyInjectionIntoASealedPageIsFoundAtTheNextRead(Algorithm algorithm) {
        pool.close();
        pool = pool("model int8", algorithm);
        for (KvFaults.Kind kind : KvFaults.Kind.values()) {
            var random = new SplittableRandom(kind.ordinal() + 100L * algorithm.ordinal());
            int injected = 0;
            while (injected < INJECTIONS) {
                // So that no slot is retired, and nothing is younger than the age that a hit looks at.
                epochMs += 2 * DAY_MS;
                nanos += 2 * MAX_AGE;
                var key = new PrefixKey("");
                int[] tokens = tokens(random, 48);
                PageTable table = filled(key, tokens, random);
                int page = table.page(random.nextInt(3));
                guard().beforeStep(++steps);
                if (KvFaults.inject(kind, pool, page, random)) {
                    injected++;
                    boolean found = switch (kind) {
                        case EPOCH_BIT -> table.firstForeign(Integer.MAX_VALUE) >= 0;
                        case TAG_BIT -> hits(tokens) < 3;
                        default -> table.verify(guard(), Moment.READ) != Long.MAX_VALUE;
                    };
                    assertThat(found).as("%s %d", kind, injected).isTrue();
                }
                guard().takeFindings();
                if (kind == KvFaults.Kind.EPOCH_BIT) {
                    table.abandon();
                    pool.recount(List.of());
                } else {
                    table.release();
                }
            }
            assertThat(pool.freePages()).as("%s: nothing is lost and nothing retired", kind).isEqualTo(pool.pageCount());
            pool.index().clear();
        }
    }

    @Test
    void everyDamagedEntryOfATableIsFound() {
        var random = new SplittableRandom(8);
        for (int i = 0; i < 3 * INJECTIONS; i++) {
            var key = new PrefixKey("");
            PageTable table = filled(key, tokens(random, 40), random);
            assertThat(table.firstForeign(Integer.MAX_VALUE)).isEqualTo(-1);
            int entry = random.nextInt(3);
            KvFaults.damageTable(table, entry, i % 3, random);
            assertThat(table.firstForeign(Integer.MAX_VALUE)).isEqualTo(entry);
            table.abandon();
            pool.recount(List.of());
        }
        pool.index().clear();
        assertThat(pool.freePages()).isEqualTo(pool.pageCount());
    }

    @Test
    void aSoundPageIsNeverReported() {
        var random = new SplittableRandom(9);
        for (int step = 0; step < INJECTIONS; step++) {
            nanos += random.nextLong(MAX_AGE);
            guard().beforeStep(step);
            PageTable table = filled(new PrefixKey(random.nextInt(3) == 0 ? "tenant" : ""), tokens(random, 50), random);
            guard().afterStep(step + 1);
            assertThat(table.verify(guard(), Moment.LEAVE)).isEqualTo(Long.MAX_VALUE);
            assertThat(table.firstForeign(48)).isEqualTo(-1);
            guard().walk();
            table.release();
        }
        assertThat(guard().takeFindings()).isEmpty();
        assertThat(guard().verified()).isPositive();
    }

    @Test
    void aHitIsVerifiedWhenItsLastLookIsTooLongAgo() {
        var random = new SplittableRandom(1);
        int[] tokens = tokens(random, 32);
        PageTable first = filled(new PrefixKey(""), tokens, random);
        KvFaults.inject(KvFaults.Kind.CODE_BIT, pool, first.page(1), random);
        PageTable second = new PageTable(pool);
        nanos = MAX_AGE;
        guard().beforeStep(3);
        assertThat(second.adopt(new PrefixKey(""), tokens, 2, false)).as("young enough").isEqualTo(2);
        second.release();
        nanos++;
        assertThat(second.adopt(new PrefixKey(""), tokens, 2, false)).isOne();
        assertThat(pool.index().pages()).as("gone before anything is computed").isOne();
        assertThat(guard().takeFindings()).containsExactly(
                new PageGuard.Finding(first.page(1), Moment.HIT, "content", 0));
        assertThat(guard().isDamaged(first.page(1))).isTrue();
        second.release();
        first.release();
    }

    @Test
    void takingUpAgainVerifiesWhateverTheAge() {
        var random = new SplittableRandom(1);
        int[] tokens = tokens(random, 32);
        PageTable first = filled(new PrefixKey(""), tokens, random);
        guard().beforeStep(3);
        KvFaults.inject(KvFaults.Kind.CODE_BIT, pool, first.page(0), random);
        assertThat(new PageTable(pool).adopt(new PrefixKey(""), tokens, 2, true)).isZero();
        assertThat(pool.index().pages()).as("the page and its descendant").isZero();
        first.release();
    }

    @Test
    void theWalkFindsWhatNobodyReads() {
        var random = new SplittableRandom(1);
        PageTable table = filled(new PrefixKey(""), tokens(random, 64), random);
        int page = table.page(2);
        table.release();
        KvFaults.inject(KvFaults.Kind.CODE_BIT, pool, page, random);
        guard().afterStep(17);
        assertThat(guard().walk()).as("no time has passed").isZero();
        nanos += MAX_AGE;
        assertThat(guard().walk()).as("all were looked at not long ago").isZero();
        nanos++;
        assertThat(guard().walk()).as("all but the one that follows").isEqualTo(3);
        assertThat(guard().takeFindings()).containsExactly(new PageGuard.Finding(page, Moment.WALK, "content", 0));
        assertThat(pool.index().pages()).as("what follows the page is gone too").isEqualTo(2);
        assertThat(pool.freePages()).isEqualTo(pool.pageCount());
    }

    @Test
    void aDamagedSlotIsExaminedAndTheSecondTimeWithinADayRetired() {
        var random = new SplittableRandom(2);
        epochMs = 5 * DAY_MS;
        int slot = damage(random);
        assertThat(guard().retired()).isZero();
        assertThat(guard().isDamaged(slot)).isFalse();
        assertThat(bytes(slot)).as("written and read back").containsOnly((byte) 0xAA);
        epochMs += DAY_MS;
        assertThat(damage(random)).isEqualTo(slot);
        assertThat(guard().retired()).as("a day later").isZero();
        epochMs += DAY_MS - 1;
        assertThat(damage(random)).isEqualTo(slot);
        assertThat(guard().retired()).isOne();
        assertThat(pool.freePages()).isEqualTo(pool.pageCount() - 1);
        PageTable all = new PageTable(pool);
        assertThat(all.ensure(16 * pool.pageCount())).isFalse();
        assertThat(all.ensure(16 * (pool.pageCount() - 1))).isTrue();
        for (int i = 0; i < all.pageCount(); i++) {
            assertThat(all.page(i)).isNotEqualTo(slot);
        }
        all.release();
    }

    private int damage(SplittableRandom random) {
        PageTable table = filled(new PrefixKey(""), tokens(random, 16), random);
        int slot = table.page(0);
        guard().beforeStep(++steps);
        KvFaults.inject(KvFaults.Kind.CODE_BIT, pool, slot, random);
        assertThat(table.verify(guard(), Moment.READ)).isEqualTo(steps - 1);
        guard().takeFindings();
        table.release();
        return slot;
    }

    /// The classic bugs of caches, each put back in on purpose.
    @ParameterizedTest
    @CsvSource({"model int4", "another int8", "model int8 other-arithmetic"})
    void aPageOfAnotherModelOrLayoutIsNotTaken(String other) {
        var random = new SplittableRandom(3);
        int[] tokens = tokens(random, 16);
        PageTable mine = filled(new PrefixKey(""), tokens, random);
        try (PagePool foreign = pool(other, Algorithm.CRC32C)) {
            var key = new PrefixKey("");
            long idTag = java.util.Objects.requireNonNull(foreign.guard()).idTag(key, 0, tokens);
            nanos += 2 * MAX_AGE;
            assertThat(guard().accepts(mine.page(0), idTag, false)).isFalse();
            assertThat(guard().takeFindings()).extracting(PageGuard.Finding::why).containsExactly("identity");
        }
        mine.release();
    }

    @Test
    void aPageUnderALostSaltIsNotTaken() {
        var random = new SplittableRandom(3);
        int[] tokens = tokens(random, 16);
        PageTable mine = filled(new PrefixKey("tenant"), tokens, random);
        long idTag = guard().idTag(new PrefixKey(""), 0, tokens);
        assertThat(guard().accepts(mine.page(0), idTag, false)).isFalse();
        assertThat(guard().takeFindings()).extracting(PageGuard.Finding::why).containsExactly("identity");
        mine.release();
    }

    @Test
    void theRightBytesInTheWrongPlaceAreFound() {
        var random = new SplittableRandom(4);
        int[] tokens = tokens(random, 48);
        PageTable table = filled(new PrefixKey(""), tokens, random);
        // The index finds page 2 where page 1 is asked for: equal tokens, another place in the chain.
        long wanted = guard().idTag(new PrefixKey(""), 1, tokens);
        assertThat(guard().accepts(table.page(2), wanted, false)).isFalse();
        assertThat(guard().takeFindings()).extracting(PageGuard.Finding::why).containsExactly("identity");
        table.release();
    }

    @Test
    void aPageThatWasNeverSealedIsAMiss() {
        var random = new SplittableRandom(5);
        int[] tokens = tokens(random, 16);
        PageTable aborted = new PageTable(pool);
        aborted.ensure(16);
        // The bug: the pages of a request that was aborted are entered as they are.
        pool.index().register(new PrefixKey(""), 0, PagePool.NONE, tokens, aborted.page(0));
        assertThat(new PageTable(pool).adopt(new PrefixKey(""), tokens, 1, false)).isZero();
        assertThat(guard().takeFindings()).extracting(PageGuard.Finding::why).containsExactly("unsealed");
        assertThat(pool.index().pages()).isZero();
        aborted.release();
    }

    @Test
    void aTableThatOutlivesItsPagesFindsThatTheyAreNotItsOwn() {
        var random = new SplittableRandom(6);
        PageTable cancelled = filled(new PrefixKey(""), tokens(random, 40), random);
        // The bug: the pages are freed on cancel, and the retry goes on with the same table.
        for (int i = 2; i >= 0; i--) {
            KvFaults.freeTooEarly(pool, cancelled.page(i));
        }
        assertThat(cancelled.firstForeign(Integer.MAX_VALUE)).isNotNegative();
        PageTable other = filled(new PrefixKey(""), tokens(random, 60), random);
        assertThat(cancelled.firstForeign(Integer.MAX_VALUE)).isNotNegative();
        assertThat(other.firstForeign(48)).isEqualTo(-1);
        cancelled.abandon();
        pool.recount(List.of(other));
        assertThat(other.firstForeign(48)).isEqualTo(-1);
        other.release();
        assertThat(pool.freePages()).isEqualTo(pool.pageCount());
    }

    @Test
    void aSharedOrIndexedPageIsNotWritten() {
        var random = new SplittableRandom(7);
        int[] tokens = tokens(random, 32);
        PageTable table = filled(new PrefixKey(""), tokens, random);
        assertThat(table.firstForeign(32)).isEqualTo(-1);
        assertThat(table.firstForeign(31)).as("a page of the index").isOne();
        table.ensure(40);
        assertThat(table.firstForeign(33)).isEqualTo(-1);
        pool.share(table.page(2));
        assertThat(table.firstForeign(33)).as("a page with two holders").isEqualTo(2);
        pool.free(table.page(2));
        table.release();
    }

    @Test
    void aFreedPageHasNoDigestAndAnotherEpoch() {
        var random = new SplittableRandom(7);
        PageTable table = filled(new PrefixKey(""), tokens(random, 16), random);
        int page = table.page(0);
        int epoch = pool.epoch(page);
        assertThat(guard().isSealed(page)).isTrue();
        pool.index().clear();
        table.release();
        assertThat(guard().isSealed(page)).isFalse();
        assertThat(pool.epoch(page)).isNotEqualTo(epoch);
    }

    /// Memory that counts the batches of its digests.
    private record Counting(HostCache host, List<Integer> batches) implements CacheMemory {
        @Override
        public Algorithm algorithm() {
            return host.algorithm();
        }

        @Override
        public long allocate(long bytes) {
            return host.allocate(bytes);
        }

        @Override
        public void digest(int count, long[] pages, int bytes, long[] tags, long[] digests) {
            batches.add(count);
            host.digest(count, pages, bytes, tags, digests);
        }

        @Override
        public boolean keepsBits(long page, int bytes) {
            return host.keepsBits(page, bytes);
        }

        @Override
        public void read(long address, MemorySegment to) {
            host.read(address, to);
        }

        @Override
        public void write(long address, MemorySegment from) {
            host.write(address, from);
        }

        @Override
        public void close() {
            host.close();
        }
    }

    @Test
    void pagesOfAllTablesAreSealedAtOnceAndTheWalkLooksAtMoreAndMore() {
        var random = new SplittableRandom(7);
        var counting = new Counting(new HostCache(), new ArrayList<>());
        try (var plain = new PagePool(LAYOUT, 20 * LAYOUT.pageBytes(), counting)) {
            PageGuard guard = plain.openGuard(new PageGuard.Settings("m", MAX_AGE, () -> nanos, () -> epochMs));
            List<PageTable> tables = List.of(new PageTable(plain), new PageTable(plain), new PageTable(plain));
            tables.forEach(table -> table.ensure(80));
            tables.forEach(table -> table.seal(new PrefixKey(""), tokens(random, 80), 80));
            assertThat(counting.batches).isEmpty();
            guard.settle();
            guard.settle();
            assertThat(counting.batches).containsExactly(15);
            guard.beforeStep(1);
            nanos += MAX_AGE + 1_000_000_000L;
            assertThat(guard.walk()).isEqualTo(15);
            assertThat(counting.batches).containsExactly(15, 1, 2, 4, 8);
            assertThat(guard.hasFindings()).isFalse();
        }
    }

    @Test
    void pagesAreSealedWithoutAnIndexToo() {
        var random = new SplittableRandom(7);
        try (var plain = new PagePool(LAYOUT, 10 * LAYOUT.pageBytes())) {
            PageGuard guard = plain.openGuard(
                    new PageGuard.Settings("m", MAX_AGE, () -> nanos, () -> epochMs));
            PageTable table = new PageTable(plain);
            table.ensure(40);
            table.seal(new PrefixKey(""), tokens(random, 40), 40);
            assertThat(table.sealedTokens()).isEqualTo(32);
            guard.beforeStep(1);
            KvFaults.inject(KvFaults.Kind.CODE_BIT, plain, table.page(1), random);
            assertThat(table.verify(guard, Moment.READ)).isZero();
            table.release();
        }
    }

    @Test
    void thereIsOneGuardAndItComesFirst() {
        String expected = "KV cache: expected one guard, opened before the index and before the first page is handed out";
        var settings = new PageGuard.Settings("m", 0, () -> 0, () -> 0);
        assertThatThrownBy(() -> pool.openGuard(settings)).hasMessage(expected);
        try (var late = new PagePool(LAYOUT, LAYOUT.pageBytes())) {
            late.openIndex("m");
            assertThatThrownBy(() -> late.openGuard(settings)).hasMessage(expected);
        }
    }
}
