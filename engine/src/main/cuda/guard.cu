/* What LogitsCheck and Sampler ask of a row of logits before anything else: whether its numbers can be, which is the
 * largest, and its digest. */
#include "port.h"

#define GUARD_PART 4096 /* logits of a part */

__device__ __forceinline__ uint4 guard_both(uint4 a, uint4 b) {
    float x = __uint_as_float(a.z), y = __uint_as_float(b.z);
    bool second = y > x || (y == x && b.w < a.w);
    return make_uint4(max(a.x, b.x), a.y | b.y, second ? b.z : a.z, second ? b.w : a.w);
}

/* The product of two polynomials modulo that of CRC-32C, the highest power in bit 0: as CrcShift.java. */
__device__ __forceinline__ unsigned guard_times(unsigned a, unsigned b) {
    unsigned product = 0;
#pragma unroll 8
    for (int i = 0; i < 32; i++) {
        product ^= b & (0u - (a >> 31));
        a <<= 1;
        b = b >> 1 ^ (0x82f63b78u & (0u - (b & 1u)));
    }
    return product;
}

/* A polynomial moved on by as many words as the block has threads: a table for each of its bytes. */
__device__ __forceinline__ unsigned guard_step(const unsigned *tables, unsigned a) {
    return __ldg(tables + (a & 0xffu)) ^ __ldg(tables + 256 + (a >> 8 & 0xffu)) ^ __ldg(tables + 512 + (a >> 16 & 0xffu)) ^
           __ldg(tables + 768 + (a >> 24));
}

/* A block of 256 threads for each part (blockIdx.x) of each row (blockIdx.y). `found` is [rows][parts], for each part
 *   x  the largest bits of an absolute value: floats without their sign are in the order of their bits, NaN above all
 *   y  the bits in which some logit differs from the row's first
 *   z  the bits of the largest logit
 *   w  its index in the row, the lowest of several; not defined for a part with a NaN
 * `sums` is [rows][parts]: the part's words as a polynomial times x^32, modulo that of CRC-32C. `tables` are four of 256 words
 * for guard_step, then x^32 to x^(32 * 256).
 * Shared: 20 bytes for each warp. */
GPU_KERNEL guard_logits(uint4 *found, unsigned *sums, const unsigned *tables, const float *logits, int stride, int vocab, int rows,
                        const int *live) {
    GPU_DYN_SHARED(uint4, warps);
    int row = blockIdx.y;
    if (row >= live_rows(rows, live)) {
        return;
    }
    const float *values = logits + (size_t)row * stride;
    unsigned first = __float_as_uint(values[0]), largest = 0, differing = 0;
    int from = blockIdx.x * GUARD_PART, to = min(vocab, from + GUARD_PART);
    /* Whoever has none of its own takes the part's first, which changes nothing. */
    int index = from + (int)threadIdx.x < to ? from + (int)threadIdx.x : from;
    float best = values[index];
    unsigned sum = 0;
    int next = from + threadIdx.x;
#pragma unroll 4
    for (int i = from + threadIdx.x; i < to; i += blockDim.x) {
        float v = values[i];
        unsigned bits = __float_as_uint(v);
        largest = max(largest, bits & 0x7fffffffu);
        differing |= bits ^ first;
        sum = guard_step(tables, sum) ^ bits;
        next = i + blockDim.x;
        if (v > best) {
            best = v;
            index = i;
        }
    }
    /* Words of the part behind this thread's last one; a thread without a word has nothing to add. */
    int behind = to - 1 - (next - (int)blockDim.x);
    sum = next > from + (int)threadIdx.x ? guard_times(sum, __ldg(tables + 1024 + behind)) : 0;
    sum = __reduce_xor_sync(GPU_ALL_LANES, sum);
    uint4 mine = make_uint4(largest, differing, __float_as_uint(best), (unsigned)index);
#pragma unroll
    for (int o = 16; o; o /= 2) {
        uint4 other = make_uint4(__shfl_xor_sync(GPU_ALL_LANES, mine.x, o), __shfl_xor_sync(GPU_ALL_LANES, mine.y, o),
                                 __shfl_xor_sync(GPU_ALL_LANES, mine.z, o), __shfl_xor_sync(GPU_ALL_LANES, mine.w, o));
        mine = guard_both(mine, other);
    }
    unsigned *ofWarps = (unsigned *)(warps + blockDim.x / 32);
    if (threadIdx.x % 32 == 0) {
        warps[threadIdx.x / 32] = mine;
        ofWarps[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (unsigned w = 1; w < blockDim.x / 32; w++) {
            mine = guard_both(mine, warps[w]);
            sum ^= ofWarps[w];
        }
        found[(size_t)row * gridDim.x + blockIdx.x] = mine;
        sums[(size_t)row * gridDim.x + blockIdx.x] = sum;
    }
}
GPU_EXPORT(guard_logits)
