// Appends latents and rotated keys of rows to the pages of the cache: one block of 4 warps for each row. A warp has whole
// groups of 128 values of the latent, which share a scale; then all threads write the rotated key.
//
// Limit: latency, as store_grouped.
#include "store.h"

/// Values of a latent that share a scale.
constexpr int LATENT_GROUP = 128;

template <int FORMAT> __device__ __forceinline__ float latent_scale(unsigned amax) {
    return kept(FORMAT == CACHE_INT8 ? int8_scale(amax) : fp8_scale(amax));
}

template <int FORMAT>
__device__ __forceinline__ void write_groups(unsigned char* row, unsigned char* scales, int slot, const float* x, int n) {
    int warp = threadIdx.x >> 5;
    int lane = threadIdx.x & 31;
    for (int g = warp; g * LATENT_GROUP < n; g += blockDim.x >> 5) {
        int from = g * LATENT_GROUP;
        int count = n - from < LATENT_GROUP ? n - from : LATENT_GROUP;
        float scale = latent_scale<FORMAT>(largest_of(x + from, count));
        if (lane == 0) {
            *reinterpret_cast<float*>(scales + 4 * (CACHE_TOKENS * g + slot)) = scale;
        }
        write_as_depth<FORMAT>(row + 4ll * from, x + from, count, scale, lane, 32);
    }
}

/// FP8 with one scale for latent and rotated key. Every warp finds it for itself.
__device__ __forceinline__ float write_plain_scale(
        unsigned char* scales, int slot, const float* c, int rank, const float* k, int rope) {
    unsigned latent = largest_of(c, rank);
    unsigned key = largest_of(k, rope);
    float scale = kept(fp8_scale(latent > key ? latent : key));
    if (threadIdx.x == 0) {
        *reinterpret_cast<float*>(scales + 4 * slot) = scale;
    }
    return scale;
}

template <int LATENT, int ROPE>
__device__ __forceinline__ void store_latent(const int* counts, const CacheSegment* segments, const int* segmentOf,
        const unsigned long long* pages, long long layerOffset, int rank, int ropeDim, int latentLanes, int ropeLanes,
        long long ropeOffset, long long scaleOffset, const float* latents, int latentStride, const float* keys, int keyStride) {
    int row = blockIdx.x;
    if (row >= counts[1] || segmentOf[row] < 0) {
        return;
    }
    CacheSegment segment = segments[segmentOf[row]];
    int position = segment.start + row - segment.firstRow;
    int slot = position % CACHE_TOKENS;
    unsigned char* block = cache_page(pages, segment.firstPage + position / CACHE_TOKENS, layerOffset);
    const float* c = latents + (long long)row * latentStride;
    const float* k = keys + (long long)row * keyStride;
    unsigned char* latentRow = token_row<LATENT>(block, latentLanes, slot);
    unsigned char* ropeRow = token_row<ROPE>(block + ropeOffset, ropeLanes, slot);
    float scale = 0;
    if (ROPE == CACHE_FP8) {
        scale = write_plain_scale(block + scaleOffset, slot, c, rank, k, ropeDim);
    }
    if (ROPE != CACHE_FP8 && (LATENT == CACHE_INT8 || LATENT == CACHE_FP8)) {
        write_groups<LATENT>(latentRow, block + scaleOffset, slot, c, rank);
    } else {
        write_as_depth<LATENT>(latentRow, c, rank, scale, threadIdx.x, blockDim.x);
    }
    write_as_depth<ROPE>(ropeRow, k, ropeDim, scale, threadIdx.x, blockDim.x);
}

/// Grid (rows), 128 threads. Offsets are those of CacheShape.Latent, strides floats from row to row.
#define STORE_LATENT(NAME, LATENT, ROPE)                                                                                  \
    GPU_KERNEL NAME(const int* counts, const CacheSegment* segments, const int* segmentOf, const unsigned long long* pages,\
            long long layerOffset, int rank, int ropeDim, int latentLanes, int ropeLanes, long long ropeOffset,           \
            long long scaleOffset, const float* latents, int latentStride, const float* keys, int keyStride) {            \
        store_latent<LATENT, ROPE>(counts, segments, segmentOf, pages, layerOffset, rank, ropeDim, latentLanes,           \
                ropeLanes, ropeOffset, scaleOffset, latents, latentStride, keys, keyStride);                              \
    }                                                                                                                     \
    GPU_EXPORT(NAME)

STORE_LATENT(store_latent_f32, CACHE_F32, CACHE_F32)
STORE_LATENT(store_latent_bf16, CACHE_BF16, CACHE_BF16)
STORE_LATENT(store_latent_int8, CACHE_INT8, CACHE_BF16)
STORE_LATENT(store_latent_fp8, CACHE_FP8, CACHE_BF16)
STORE_LATENT(store_latent_fp8_plain, CACHE_FP8, CACHE_FP8)
