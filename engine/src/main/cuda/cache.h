// What the kernels of the KV cache share: where a row's page lies, and numbers as operands of mma.
#pragma once
#include "port.h"

/// Tokens of a page, and so of a block and of a step of an mma over tokens.
constexpr int CACHE_TOKENS = 16;
/// Tokens of a split, whose sums are formed on their own: splits begin at multiples of it.
constexpr int CACHE_SPLIT = 256;

/// Consecutive tokens of one sequence, as millrace.engine.kernel.cuda.CudaCacheBatch writes it: 32 bytes.
struct CacheSegment {
    int firstRow;
    int rows;
    int start;        // position of the first row
    int firstPage;    // index of the first page's address
    int firstPartial; // index of its first partial sum, or -1 if it wants none
    int reserved[3];

    /// The splits of its last row.
    __device__ __forceinline__ int splits() const { return (start + rows + CACHE_SPLIT - 1) / CACHE_SPLIT; }
    /// Whether its splits go to partial sums of their own, a record for each row and split; else a block has them all.
    /// There is room for `records`.
    __device__ __forceinline__ bool partial(int records) const {
        return firstPartial >= 0 && firstPartial + rows * splits() <= records;
    }
};

enum CacheFormat { CACHE_F32, CACHE_BF16, CACHE_INT8, CACHE_INT4, CACHE_FP8 };

/// Address of the part of a page that belongs to a layer.
__device__ __forceinline__ unsigned char* cache_page(const unsigned long long* pages, int page, long long layerOffset) {
    return reinterpret_cast<unsigned char*>(pages[page] + (unsigned long long)layerOffset);
}

/// The orthonormal Walsh-Hadamard rotation of n values in shared memory by one warp, in the order of Hadamard.java.
/// Begins and ends with the warp together.
__device__ __forceinline__ void warp_rotate(float* x, int n, float factor) {
    int lane = threadIdx.x & 31;
    __syncwarp();
    for (int h = 1; h < n; h *= 2) {
        for (int pair = lane; pair < n / 2; pair += 32) {
            int i = pair / h * 2 * h + pair % h;
            float a = x[i];
            float b = x[i + h];
            x[i] = __fadd_rn(a, b);
            x[i + h] = __fsub_rn(a, b);
        }
        __syncwarp();
    }
    for (int i = lane; i < n; i += 32) {
        x[i] = __fmul_rn(x[i], factor);
    }
    __syncwarp();
}
