/* Digests W64 of pieces of memory, pages and weights: the sum of (w[i] + 1) · (splitmix64(tag + i) | 1) mod 2^64 over
 * the words of 32 bits, as PageDigest on the host. A sum of integers is the same in any order, so a piece is cut into
 * parts, and whoever asked adds these. */
#include "port.h"

#define DIGEST_PART 8192u /* words of a part; a multiple of 4 */

__device__ __forceinline__ unsigned long long digest_word(unsigned word, unsigned long long at) {
    return ((unsigned long long)word + 1u) * (splitmix64(at) | 1u);
}

struct DigestPiece {
    unsigned long long address; /* a multiple of 4 */
    unsigned long long tag;
    unsigned words;
    unsigned unused;
};

/* A block for each part (blockIdx.x) of each piece (blockIdx.y). `sums` is [pieces][parts]; parts that a shorter piece
 * does not have are 0. Shared: a sum of 8 bytes for each warp. */
GPU_KERNEL digest_w64(unsigned long long *sums, const DigestPiece *pieces) {
    GPU_DYN_SHARED(unsigned long long, warpSums);
    DigestPiece piece = pieces[blockIdx.y];
    unsigned from = blockIdx.x * DIGEST_PART, count = piece.words > from ? min(DIGEST_PART, piece.words - from) : 0;
    const unsigned *words = (const unsigned *)piece.address + from;
    unsigned long long at = piece.tag + from, sum = 0;
    unsigned whole = (piece.address & 15u) == 0 ? count / 4 * 4 : 0; /* what can be loaded four at a time */
#pragma unroll 4
    for (unsigned i = 4 * threadIdx.x; i < whole; i += 4 * blockDim.x) {
        uint4 w = gpu_ld_stream16(words + i);
        sum += digest_word(w.x, at + i);
        sum += digest_word(w.y, at + i + 1);
        sum += digest_word(w.z, at + i + 2);
        sum += digest_word(w.w, at + i + 3);
    }
    for (unsigned i = whole + threadIdx.x; i < count; i += blockDim.x) {
        sum += digest_word(words[i], at + i);
    }
#pragma unroll
    for (int o = 16; o; o /= 2) {
        sum += __shfl_xor_sync(GPU_ALL_LANES, sum, o);
    }
    if (threadIdx.x % 32 == 0) {
        warpSums[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (unsigned w = 1; w < blockDim.x / 32; w++) {
            sum += warpSums[w];
        }
        sums[(size_t)blockIdx.y * gridDim.x + blockIdx.x] = sum;
    }
}
GPU_EXPORT(digest_w64)
