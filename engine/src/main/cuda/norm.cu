/* RMS norm of vectors: y = x · scale · w, scale = 1 / sqrt(sum(x²) / n + eps); and the layer norm of short ones.
 *
 * The order is that of Kernels.rmsNorm: 16 partial sums of squares by fma, partial l over i = l, l + 16, ...; their tree
 * 8, 4, 2, 1; the scale in F64, rounded once; then two multiplications. A partial is one chain, so 16 threads add and all
 * others load for them.
 */
#include "port.h"

#define NORM_PARTIALS 16
#define NORM_STAGE 2048 /* floats of a vector that lie in shared memory at a time; a multiple of NORM_PARTIALS */

__device__ __forceinline__ float norm_tree(float sum) {
#pragma unroll
    for (int half = NORM_PARTIALS / 2; half; half /= 2) {
        sum = __fadd_rn(sum, __shfl_xor_sync(GPU_ALL_LANES, sum, half, NORM_PARTIALS));
    }
    return sum;
}

__device__ __forceinline__ float norm_scale(float sum, int n, float eps) {
    double mean = __ddiv_rn((double)sum, (double)n);
    return __double2float_rn(__ddiv_rn(1.0, __dsqrt_rn(__dadd_rn(mean, (double)eps))));
}

/* A vector by a block; with ADD, x += added first. Shared: 2 · NORM_STAGE + 1 floats. to may be from. */
template <bool ADD>
__device__ __forceinline__ void norm_long(float *to, float *from, const float *added, const float *weight, int n, float eps,
                                          float *stages) {
    float sum = 0.0f;
    for (int first = 0, turn = 0; first < n; first += NORM_STAGE, turn ^= 1) {
        /* Two stages: while the partials of one are added, the other warps load the next. */
        float *stage = stages + turn * NORM_STAGE;
        int count = min(NORM_STAGE, n - first);
        for (int i = threadIdx.x; i < count; i += blockDim.x) {
            float v = from[first + i];
            if (ADD) {
                v = __fadd_rn(v, added[first + i]);
                from[first + i] = v;
            }
            stage[i] = v;
        }
        __syncthreads();
        if (threadIdx.x < NORM_PARTIALS) {
#pragma unroll 8
            for (int i = threadIdx.x; i < count; i += NORM_PARTIALS) {
                sum = __fmaf_rn(stage[i], stage[i], sum);
            }
        }
    }
    if (threadIdx.x < 32) {
        sum = norm_tree(sum);
        if (threadIdx.x == 0) {
            stages[2 * NORM_STAGE] = norm_scale(sum, n, eps);
        }
    }
    __syncthreads();
    float scale = stages[2 * NORM_STAGE];
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        to[i] = __fmul_rn(__fmul_rn(from[i], scale), weight[i]);
    }
}

/* A block for each vector of [rows][heads], for long ones. y may be x. */
GPU_KERNEL rms_norm(float *y, float *x, const float *weight, int n, int heads, int yStride, int xStride, float eps, int rows,
                    const int *live) {
    GPU_DYN_SHARED(float, stages);
    int row = blockIdx.x / heads, head = blockIdx.x % heads;
    if (row < live_rows(rows, live)) {
        size_t at = (size_t)head * n;
        norm_long<false>(y + (size_t)row * yStride + at, x + (size_t)row * xStride + at, nullptr, weight, n, eps, stages);
    }
}
GPU_EXPORT(rms_norm)

/* x += added, and its norm: a block for each row. */
GPU_KERNEL add_rms_norm(float *y, float *x, const float *added, const float *weight, int n, int yStride, int xStride,
                        int addedStride, float eps, int rows, const int *live) {
    GPU_DYN_SHARED(float, stages);
    size_t row = blockIdx.x;
    if (row < (size_t)live_rows(rows, live)) {
        norm_long<true>(y + row * yStride, x + row * xStride, added + row * addedStride, weight, n, eps, stages);
    }
}
GPU_EXPORT(add_rms_norm)

/* Half a warp for each vector of [rows][heads], for short ones. y may be x. */
GPU_KERNEL rms_norm_short(float *y, const float *x, const float *weight, int n, int heads, int yStride, int xStride,
                          float eps, int rows, const int *live) {
    int lane = threadIdx.x % NORM_PARTIALS;
    int vector = (blockIdx.x * blockDim.x + threadIdx.x) / NORM_PARTIALS;
    int row = vector / heads, head = vector % heads;
    bool present = row < live_rows(rows, live);
    const float *from = x + (size_t)row * xStride + (size_t)head * n;
    float *to = y + (size_t)row * yStride + (size_t)head * n;
    float sum = 0.0f;
    if (present) {
        for (int i = lane; i < n; i += NORM_PARTIALS) {
            sum = __fmaf_rn(from[i], from[i], sum);
        }
    }
    float scale = norm_scale(norm_tree(sum), n, eps);
    if (present) {
        for (int i = lane; i < n; i += NORM_PARTIALS) {
            to[i] = __fmul_rn(__fmul_rn(from[i], scale), weight[i]);
        }
    }
}
GPU_EXPORT(rms_norm_short)

/* The same about the mean, plus a bias: half a warp for each row. y may be x. */
GPU_KERNEL layer_norm(float *y, const float *x, const float *weight, const float *bias, int n, int yStride, int xStride,
                      float eps, int rows, const int *live) {
    int lane = threadIdx.x % NORM_PARTIALS;
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / NORM_PARTIALS;
    bool present = row < live_rows(rows, live);
    const float *from = x + (size_t)row * xStride;
    float *to = y + (size_t)row * yStride;
    float sum = 0.0f;
    if (present) {
        for (int i = lane; i < n; i += NORM_PARTIALS) {
            sum = __fadd_rn(sum, from[i]);
        }
    }
    float mean = __fdiv_rn(norm_tree(sum), (float)n);
    float squares = 0.0f;
    if (present) {
        for (int i = lane; i < n; i += NORM_PARTIALS) {
            float d = __fsub_rn(from[i], mean);
            squares = __fmaf_rn(d, d, squares);
        }
    }
    float scale = norm_scale(norm_tree(squares), n, eps);
    if (present) {
        for (int i = lane; i < n; i += NORM_PARTIALS) {
            to[i] = __fadd_rn(__fmul_rn(__fmul_rn(__fsub_rn(from[i], mean), scale), weight[i]), bias[i]);
        }
    }
}
GPU_EXPORT(layer_norm)
