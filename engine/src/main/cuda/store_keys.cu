// Appends index keys of rows to the pages of the cache, a warp for each row, with the bytes of grouped keys.
//
// Limit: latency, as store_grouped.
#include "store.h"

template <int FORMAT>
__device__ __forceinline__ void store_keys(const int* counts, const CacheSegment* segments, const int* segmentOf,
        const unsigned long long* pages, long long layerOffset, int dim, long long scaleOffset, const float* keys, int keyStride) {
    int row = (int)(blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (row >= counts[1] || segmentOf[row] < 0) {
        return;
    }
    CacheSegment segment = segments[segmentOf[row]];
    int position = segment.start + row - segment.firstRow;
    unsigned char* block = cache_page(pages, segment.firstPage + position / CACHE_TOKENS, layerOffset);
    write_key<FORMAT>(block, block + scaleOffset, position % CACHE_TOKENS, keys + (long long)row * keyStride, dim);
}

/// Whole warps, one for each row. Offsets are those of CacheShape.Keys, strides floats from row to row.
#define STORE_KEYS(NAME, FORMAT)                                                                                          \
    GPU_KERNEL NAME(const int* counts, const CacheSegment* segments, const int* segmentOf, const unsigned long long* pages,\
            long long layerOffset, int dim, long long scaleOffset, const float* keys, int keyStride) {                    \
        store_keys<FORMAT>(counts, segments, segmentOf, pages, layerOffset, dim, scaleOffset, keys, keyStride);           \
    }                                                                                                                     \
    GPU_EXPORT(NAME)

STORE_KEYS(store_keys_f32, CACHE_F32)
STORE_KEYS(store_keys_bf16, CACHE_BF16)
STORE_KEYS(store_keys_int8, CACHE_INT8)
