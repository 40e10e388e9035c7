package millrace.engine.kv;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;

/// Damages KV pages and what is known about them, as hardware and wrong software would. Tests only.
public final class KvFaults {
    private KvFaults() {}

    /// What can happen to one page.
    public enum Kind {
        CODE_BIT,
        /// Of index keys; none where the model has no indexer.
        INDEX_BIT,
        SWAPPED_WORDS,
        SWAPPED_PAGES,
        /// The bytes of another page in its place, as after a copy that went to the wrong slot.
        DUPLICATED_PAGE,
        /// Nothing in its place, as after a copy that never came.
        DROPPED_PAGE,
        PERMUTED_BLOCKS,
        ZEROED_SCALES,
        DIGEST_BIT,
        TAG_BIT,
        EPOCH_BIT
    }

    /// Pages that are sealed now.
    public static List<Integer> sealedPages(PagePool pool) {
        List<Integer> sealed = new ArrayList<>();
        for (int page = 0; page < pool.usedPages(); page++) {
            if (guard(pool).isSealed(page) && !guard(pool).isDamaged(page)) {
                sealed.add(page);
            }
        }
        return sealed;
    }

    /// Pages that are held by somebody.
    public static List<Integer> heldPages(PagePool pool) {
        List<Integer> held = new ArrayList<>();
        for (int page = 0; page < pool.usedPages(); page++) {
            if (pool.holders(page) > 0) {
                held.add(page);
            }
        }
        return held;
    }

    /// Does it to a page, which is sealed unless it is the epoch that changes; false if what is there would not change, or is
    /// damaged already: two faults that undo each other between two looks are beyond any digest.
    public static boolean inject(Kind kind, PagePool pool, int page, SplittableRandom random) {
        if (kind != Kind.EPOCH_BIT && !guard(pool).isSound(page)) {
            return false;
        }
        MemorySegment memory = read(pool, page);
        long size = memory.byteSize();
        boolean changes = switch (kind) {
            case CODE_BIT -> flip(memory, random.nextLong(8 * size));
            case INDEX_BIT -> {
                long keys = pool.layout().indexOffset(0);
                yield keys < size && flip(memory, 8 * keys + random.nextLong(8 * (size - keys)));
            }
            case SWAPPED_WORDS -> swap(memory, random.nextLong(size / 4), random.nextLong(size / 4));
            case SWAPPED_PAGES -> {
                List<Integer> others = sealedPages(pool);
                int other = others.get(random.nextInt(others.size()));
                yield guard(pool).isSound(other) && swapPages(pool, memory, other);
            }
            case DUPLICATED_PAGE -> {
                List<Integer> others = sealedPages(pool);
                MemorySegment other = read(pool, others.get(random.nextInt(others.size())));
                boolean differs = memory.mismatch(other) >= 0;
                memory.copyFrom(other);
                yield differs;
            }
            case DROPPED_PAGE -> {
                memory.fill((byte) 0);
                yield true;
            }
            case PERMUTED_BLOCKS -> rotate(memory, 64 * (1 + random.nextLong(size / 64 - 1)));
            case ZEROED_SCALES -> {
                MemorySegment scales = memory.asSlice(size - 64, 64);
                boolean any = scales.mismatch(MemorySegment.ofArray(new byte[64])) >= 0;
                scales.fill((byte) 0);
                yield any;
            }
            case DIGEST_BIT -> flip(guard(pool).digests(), page, random.nextInt(63));
            case TAG_BIT -> flip(guard(pool).tags(), page, random.nextInt(64));
            case EPOCH_BIT -> {
                pool.epochs()[page] ^= 1 << random.nextInt(32);
                yield true;
            }
        };
        pool.memory().write(pool.address(page), memory);
        return changes;
    }

    /// Damages one entry of a table: 0 the page's number, 1 its epoch, 2 its address.
    public static void damageTable(PageTable table, int i, int what, SplittableRandom random) {
        switch (what) {
            case 0 -> table.pages()[i] ^= 1 << random.nextInt(32);
            case 1 -> table.epochs()[i] ^= 1 << random.nextInt(32);
            default -> table.addresses()[i] ^= 1L << random.nextInt(64);
        }
    }

    /// As if a holder had been forgotten: the page is free though somebody reads it.
    public static void freeTooEarly(PagePool pool, int page) {
        pool.free(page);
    }

    private static PageGuard guard(PagePool pool) {
        PageGuard guard = pool.guard();
        if (guard == null) {
            throw new IllegalStateException("a pool without a guard");
        }
        return guard;
    }

    /// A copy of the page.
    private static MemorySegment read(PagePool pool, int page) {
        MemorySegment copy = MemorySegment.ofArray(new long[Math.toIntExact(pool.layout().pageBytes() / Long.BYTES)]);
        pool.memory().read(pool.address(page), copy);
        return copy;
    }

    private static boolean flip(long[] values, int i, int bit) {
        values[i] ^= 1L << bit;
        return true;
    }

    private static boolean flip(MemorySegment memory, long bit) {
        byte old = memory.get(ValueLayout.JAVA_BYTE, bit / 8);
        memory.set(ValueLayout.JAVA_BYTE, bit / 8, (byte) (old ^ 1 << bit % 8));
        return true;
    }

    private static boolean swap(MemorySegment memory, long a, long b) {
        int first = memory.get(ValueLayout.JAVA_INT, 4 * a);
        int second = memory.get(ValueLayout.JAVA_INT, 4 * b);
        memory.set(ValueLayout.JAVA_INT, 4 * a, second);
        memory.set(ValueLayout.JAVA_INT, 4 * b, first);
        return first != second;
    }

    /// Exchanges a page's copy, which is still to be written back, for another page.
    private static boolean swapPages(PagePool pool, MemorySegment page, int other) {
        MemorySegment second = read(pool, other);
        if (page.mismatch(second) < 0) {
            return false;
        }
        pool.memory().write(pool.address(other), page);
        page.copyFrom(second);
        return true;
    }

    private static boolean rotate(MemorySegment memory, long by) {
        byte[] old = memory.toArray(ValueLayout.JAVA_BYTE);
        int cut = (int) by;
        MemorySegment.copy(old, cut, memory, ValueLayout.JAVA_BYTE, 0, old.length - cut);
        MemorySegment.copy(old, 0, memory, ValueLayout.JAVA_BYTE, old.length - cut, cut);
        return memory.mismatch(MemorySegment.ofArray(old)) >= 0;
    }
}
