/* Ownership tags: by which hand-out a page belongs to whom. A step reads pages through addresses that were sent to the
 * device; before it does, every one of these must be a page whose tag is the one that its sequence expects. */
#include "port.h"

/* Pages that stand behind one another. */
struct TagSlab {
    unsigned long long start; /* address of the first */
    unsigned pages;
    unsigned firstTag; /* index of the first one's tag */
};

/* A thread for each change: {index, tag}. No index occurs twice. */
GPU_KERNEL tags_set(unsigned *tags, const uint2 *changes, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        tags[changes[i].x] = changes[i].y;
    }
}
GPU_EXPORT(tags_set)

/* A thread for each page that a step reads or writes: *first becomes the least index of one that is not the page that it
 * should be, if that is less. `slabs` are in order of their addresses, at least one. */
GPU_KERNEL tags_check(int *first, const unsigned *tags, const TagSlab *slabs, int slabCount, int pageBytes,
                      const unsigned long long *pages, const unsigned *expected, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) {
        return;
    }
    unsigned long long page = pages[i];
    int low = 0, high = slabCount - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (slabs[middle].start <= page) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    TagSlab slab = slabs[low];
    unsigned long long offset = page - slab.start, number = offset / (unsigned)pageBytes;
    if (page < slab.start || number >= slab.pages || number * (unsigned)pageBytes != offset ||
        tags[slab.firstTag + number] != expected[i]) {
        atomicMin(first, i);
    }
}
GPU_EXPORT(tags_check)
