// Appends keys and values of rows to the pages of the cache: one block for each row and KV head, its first warp for the
// key, its second for the value. A token has bytes of its own in every format, and a byte is written by one thread: rows
// of one page need no order among them.
//
// Limit: latency. A decode step writes a few KB; a prompt's chunk of 2048 rows writes single bytes of words that other
// tokens share, 4 sectors for 32 of them, which the second-level cache joins: about 16 MB there for 8 heads of 128, some 5 µs.
#include "store.h"

/// Where things lie in a block, in bytes.
struct GroupedBlock {
    unsigned char* keys;
    unsigned char* values;
    unsigned char* keyScales;
    unsigned char* valueScales;
    int lanes; // of values
};

template <int FORMAT> __device__ __forceinline__ void write_value(const GroupedBlock& b, int slot, const float* x, int n) {
    int lane = threadIdx.x & 31;
    float scale = 0;
    if (FORMAT == CACHE_INT8) {
        unsigned half = half_away_from_zero(int8_scale(largest_of(x, n)));
        if (lane == 0) {
            *reinterpret_cast<unsigned short*>(b.valueScales + 2 * slot) = (unsigned short)half;
        }
        scale = f16_to_f32((unsigned short)half);
    }
    write_as_depth<FORMAT>(token_row<FORMAT>(b.values, b.lanes, slot), x, n, scale, lane, 32);
}

/// Scales of groups of 32 values: -m / 8, m = the value of the largest magnitude, the first of equals. They go to the
/// block and, as they read back, to `scales`.
__device__ __forceinline__ void write_int4_scales(unsigned char* to, int slot, const float* x, int n, float* scales) {
    int lane = threadIdx.x & 31;
    for (int g = 0; g < n / 32; g++) {
        float value = x[32 * g + lane];
        unsigned magnitude = __float_as_uint(value) & 0x7fffffffu;
        unsigned largest = warp_largest(magnitude);
        int first = __ffs((int)__ballot_sync(GPU_ALL_LANES, magnitude == largest)) - 1;
        float m = __shfl_sync(GPU_ALL_LANES, value, first);
        m = largest == 0 ? 0.0f : m;
        unsigned half = largest >= F32_INFINITY ? F16_NAN : half_away_from_zero(__fmul_rn(m, -0.125f));
        if (lane == 0) {
            *reinterpret_cast<unsigned short*>(to + 2 * (CACHE_TOKENS * g + slot)) = (unsigned short)half;
            scales[g] = f16_to_f32((unsigned short)half);
        }
    }
    __syncwarp();
}

/// @param x the head in shared memory, rotated; `scales` room for a float for 32 of its values
__device__ __forceinline__ void write_int4(const GroupedBlock& b, int slot, const float* x, int n, float* scales, bool value) {
    int lane = threadIdx.x & 31;
    write_int4_scales(value ? b.valueScales : b.keyScales, slot, x, n, scales);
    if (value) {
        // Two dimensions, 16 apart, in one byte.
        unsigned char* row = b.values + 2ll * (slot >> 2) * n + (slot & 3);
        for (int p = lane; p < n / 2; p += 32) {
            int d = p / 16 * 32 + p % 16;
            float scale = scales[d / 32];
            row[4ll * p] = (unsigned char)(int4_of(x[d], scale) | int4_of(x[d + 16], scale) << 4);
        }
    } else {
        for (int w = lane; w < n / 8; w += 32) {
            unsigned word = 0;
            for (int i = 0; i < 8; i++) {
                word |= int4_of(x[8 * w + i], scales[w / 4]) << 4 * i;
            }
            *reinterpret_cast<unsigned*>(b.keys + 64ll * w + 4 * slot) = word;
        }
    }
}

template <int FORMAT>
__device__ __forceinline__ void store_grouped(const int* counts, const CacheSegment* segments, const int* segmentOf,
        const unsigned long long* pages, long long layerOffset, long long blockBytes, int headDim, int valueLanes,
        long long valueOffset, long long keyScaleOffset, long long valueScaleOffset, float rotation, const float* keys,
        int keyStride, const float* values, int valueStride) {
    int row = blockIdx.x; // of these there may be more than a grid has in y
    int head = blockIdx.y;
    if (row >= counts[1] || segmentOf[row] < 0) {
        return;
    }
    CacheSegment segment = segments[segmentOf[row]];
    int position = segment.start + row - segment.firstRow;
    int slot = position % CACHE_TOKENS;
    unsigned char* block = cache_page(pages, segment.firstPage + position / CACHE_TOKENS, layerOffset) + head * blockBytes;
    GroupedBlock b = {block, block + valueOffset, block + keyScaleOffset, block + valueScaleOffset, valueLanes};
    bool value = threadIdx.x >= 32;
    const float* x = value ? values + (long long)row * valueStride : keys + (long long)row * keyStride;
    x += (long long)head * headDim;
    if (FORMAT == CACHE_INT4) {
        GPU_DYN_SHARED(float, shared);
        float* mine = shared + (value ? headDim + headDim / 32 : 0);
        for (int d = threadIdx.x & 31; d < headDim; d += 32) {
            mine[d] = x[d];
        }
        warp_rotate(mine, headDim, rotation);
        write_int4(b, slot, mine, headDim, mine + headDim, value);
    } else if (value) {
        write_value<FORMAT>(b, slot, x, headDim);
    } else {
        write_key<FORMAT>(b.keys, b.keyScales, slot, x, headDim);
    }
}

/// Grid (rows, KV heads), 64 threads. Offsets are those of CacheShape.Grouped, strides floats from row to row, `rotation`
/// the factor of Hadamard.rotate. INT4 needs `2 * (headDim + headDim / 32)` floats of shared memory.
#define STORE_GROUPED(NAME, FORMAT)                                                                                       \
    GPU_KERNEL NAME(const int* counts, const CacheSegment* segments, const int* segmentOf, const unsigned long long* pages,\
            long long layerOffset, long long blockBytes, int headDim, int valueLanes, long long valueOffset,              \
            long long keyScaleOffset, long long valueScaleOffset, float rotation, const float* keys, int keyStride,       \
            const float* values, int valueStride) {                                                                       \
        store_grouped<FORMAT>(counts, segments, segmentOf, pages, layerOffset, blockBytes, headDim, valueLanes,           \
                valueOffset, keyScaleOffset, valueScaleOffset, rotation, keys, keyStride, values, valueStride);           \
    }                                                                                                                     \
    GPU_EXPORT(NAME)

STORE_GROUPED(store_grouped_f32, CACHE_F32)
STORE_GROUPED(store_grouped_bf16, CACHE_BF16)
STORE_GROUPED(store_grouped_int8, CACHE_INT8)
STORE_GROUPED(store_grouped_int4, CACHE_INT4)
