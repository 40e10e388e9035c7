package millrace.engine.kernel.ffi;

import java.lang.foreign.MemorySegment;
import java.util.Objects;
import millrace.engine.kernel.CacheShape;

/// Addresses of those pages that a call reads, in an array of its thread whose segment need not be made again: sequences bring
/// arrays of their own, which come and go (see [Segments]). They are few beside the bytes of their pages.
final class PageAddresses {
    private static final ThreadLocal<PageAddresses> OF_THREAD = ThreadLocal.withInitial(PageAddresses::new);

    private long[] addresses = new long[0];
    private MemorySegment segment = MemorySegment.ofArray(addresses);

    private PageAddresses() {}

    /// `pages[first] … pages[first + count − 1]`.
    static MemorySegment of(long[] pages, int first, int count) {
        PageAddresses here = OF_THREAD.get();
        here.reserve(count);
        System.arraycopy(pages, first, here.addresses, 0, count);
        return here.segment;
    }

    /// The page of each of the positions from `first` on.
    static MemorySegment of(long[] pages, int[] positions, int first, int count) {
        PageAddresses here = OF_THREAD.get();
        here.reserve(count);
        for (int i = 0; i < count; i++) {
            int position = Objects.checkIndex(positions[first + i], pages.length * CacheShape.TOKENS);
            here.addresses[i] = pages[position / CacheShape.TOKENS];
        }
        return here.segment;
    }

    private void reserve(int count) {
        if (addresses.length < count) {
            addresses = new long[2 * count];
            segment = MemorySegment.ofArray(addresses);
        }
    }
}
