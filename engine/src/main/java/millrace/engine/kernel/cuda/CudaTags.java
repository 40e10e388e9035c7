package millrace.engine.kernel.cuda;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;

/// The ownership tag of every KV page, on the host and on the device, tags.cu.
///
/// A tag is the number of a page's hand-out. What a step will read is checked where it will read it: the addresses that were
/// sent, against the tags that lie on the device. Changes are collected and sent before the next check.
final class CudaTags {
    /// TagSlab in tags.cu: start, pages, first tag.
    private static final int SLAB_BYTES = 16;
    private static final int PAGES_AT = 8;
    private static final int FIRST_AT = 12;

    private static final int CHANGE_INTS = 2;
    private static final int MOST_CHANGES = 4_096;
    private static final int THREADS = 128;

    /// Lists of pages of one check.
    private static final int LISTS = 2;

    /// What `first` is filled with, byte by byte: more than any index.
    private static final byte NONE_BYTE = 0x7F;
    private static final int NONE = 0x7F7F7F7F;

    private static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT;
    private static final ValueLayout.OfLong LONG = ValueLayout.JAVA_LONG;

    private final Gpu gpu;
    private final Kernel set;
    private final Kernel check;
    private final MemorySegment changes;
    private final Copy sendChanges;
    private final long changesAddress;
    private final MemorySegment first;
    private final Copy fetchFirst;
    private final long firstAddress;

    // The host's side; slabs in order of their addresses.
    private long[] starts = new long[0];
    private int[] slabPages = new int[0];
    private int[] firstTags = new int[0];
    private int[] tags = new int[0];
    private boolean[] changed = new boolean[0];
    private int[] waiting = new int[64];
    private int waitingCount;
    private int pageBytes;

    // The device's side, and what it has room for.
    private long slabsAddress;
    private long tagsAddress;
    private int slabRoom;
    private int tagRoom;

    /// Whether all of it is to be sent.
    private boolean stale;

    CudaTags(Gpu gpu) {
        this.gpu = gpu;
        set = gpu.kernel("tags_set");
        check = gpu.kernel("tags_check");
        changes = gpu.pinned((long) CHANGE_INTS * Integer.BYTES * MOST_CHANGES);
        changesAddress = gpu.allocate(changes.byteSize(), "tags of pages");
        sendChanges = gpu.copy(changes, changesAddress);
        first = gpu.pinned((long) Integer.BYTES * LISTS);
        firstAddress = gpu.allocate(first.byteSize(), "tags of pages");
        fetchFirst = gpu.copy(first, firstAddress);
    }

    /// New pages behind one another, whose tags are 0.
    ///
    /// @param bytes of a page, the same for all
    void addSlab(long start, int pages, int bytes) {
        int n = starts.length;
        int at = n;
        while (at > 0 && starts[at - 1] > start) {
            at--;
        }
        starts = insert(starts, at, start);
        slabPages = insert(slabPages, at, pages);
        firstTags = insert(firstTags, at, tags.length);
        tags = Arrays.copyOf(tags, tags.length + pages);
        changed = Arrays.copyOf(changed, tags.length);
        pageBytes = bytes;
        stale = true;
    }

    private static long[] insert(long[] values, int at, long value) {
        long[] longer = Arrays.copyOf(values, values.length + 1);
        System.arraycopy(values, at, longer, at + 1, values.length - at);
        longer[at] = value;
        return longer;
    }

    private static int[] insert(int[] values, int at, int value) {
        int[] longer = Arrays.copyOf(values, values.length + 1);
        System.arraycopy(values, at, longer, at + 1, values.length - at);
        longer[at] = value;
        return longer;
    }

    /// Says which hand-out a page belongs to from now on.
    void set(long page, int tag) {
        int found = Arrays.binarySearch(starts, page);
        int slab = found >= 0 ? found : -found - 2;
        if (slab < 0 || (page - starts[slab]) / pageBytes >= slabPages[slab]) {
            throw new IllegalArgumentException("KV cache: no page of this memory at " + Long.toHexString(page));
        }
        int index = firstTags[slab] + (int) ((page - starts[slab]) / pageBytes);
        tags[index] = tag;
        if (!changed[index]) {
            changed[index] = true;
            if (waitingCount == waiting.length) {
                waiting = Arrays.copyOf(waiting, 2 * waitingCount);
            }
            waiting[waitingCount++] = index;
        }
    }

    /// Begins a check of lists of pages: [#queue] for each, then [#end].
    void begin() {
        bringUpToDate();
        fetchFirst.fill(NONE_BYTE, first.byteSize());
    }

    /// Queues the check of a list, as it was sent.
    ///
    /// @param list its number, from 0
    /// @param pages device address of the pages' addresses
    /// @param expected device address of the tags that they must have
    void queue(int list, long pages, long expected, int count) {
        if (count > 0 && starts.length == 0) {
            throw new IllegalStateException("KV cache: expected pages that were handed out, got " + count + " others");
        }
        if (count > 0) {
            Launch launch = gpu.launch(check);
            launch.ptr(firstAddress + (long) Integer.BYTES * list).ptr(tagsAddress).ptr(slabsAddress);
            launch.i32(starts.length).i32(pageBytes).ptr(pages).ptr(expected).i32(count);
            launch.run(Math.ceilDiv(count, THREADS), 1, 1, THREADS, 0);
        }
    }

    /// Waits for the checks.
    ///
    /// @return whether every page is what it should be; else all is sent again before the next check, since it may be a tag
    ///         that was damaged
    boolean end() {
        fetchFirst.fetch(first.byteSize());
        gpu.synchronize();
        for (int list = 0; list < LISTS; list++) {
            stale |= foreign(list) >= 0;
        }
        return !stale;
    }

    /// Index of the first page of a list that is not what it should be, −1 for none.
    int foreign(int list) {
        int found = first.getAtIndex(INT, list);
        return found == NONE ? -1 : found;
    }

    private void bringUpToDate() {
        if (starts.length > slabRoom || tags.length > tagRoom) {
            // Memory of the device is never given back: take room for as many again.
            slabRoom = 2 * starts.length;
            tagRoom = 2 * tags.length;
            slabsAddress = gpu.allocate((long) SLAB_BYTES * slabRoom, "tags of pages");
            tagsAddress = gpu.allocate((long) Integer.BYTES * tagRoom, "tags of pages");
        }
        if (stale) {
            sendAll();
            return;
        }
        for (int from = 0; from < waitingCount; from += MOST_CHANGES) {
            int n = Math.min(MOST_CHANGES, waitingCount - from);
            if (from > 0) {
                gpu.synchronize();
            }
            for (int i = 0; i < n; i++) {
                int index = waiting[from + i];
                changed[index] = false;
                changes.setAtIndex(INT, (long) CHANGE_INTS * i, index);
                changes.setAtIndex(INT, (long) CHANGE_INTS * i + 1, tags[index]);
            }
            sendChanges.send((long) CHANGE_INTS * Integer.BYTES * n);
            gpu.launch(set).ptr(tagsAddress).ptr(changesAddress).i32(n)
                    .run(Math.ceilDiv(n, THREADS), 1, 1, THREADS, 0);
        }
        waitingCount = 0;
    }

    private void sendAll() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment slabs = arena.allocate((long) SLAB_BYTES * starts.length, Long.BYTES);
            for (int s = 0; s < starts.length; s++) {
                long at = (long) SLAB_BYTES * s;
                slabs.set(LONG, at, starts[s]);
                slabs.set(INT, at + PAGES_AT, slabPages[s]);
                slabs.set(INT, at + FIRST_AT, firstTags[s]);
            }
            gpu.upload(slabsAddress, slabs);
            gpu.upload(tagsAddress, arena.allocateFrom(INT, tags));
        }
        Arrays.fill(changed, false);
        waitingCount = 0;
        stale = false;
    }

    // For tests, which damage what they find here.

    long tagsAddress() {
        return tagsAddress;
    }
}
