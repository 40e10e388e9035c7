/* Weighted sums of expert outputs: from 0, acc = fma(weight, x[slot], acc), ascending by expert; then + shared. */
#include "port.h"

/* A thread for each column; blockIdx.x is the row. `slots` and `weights` are [rows][perRow]; `shared` may be null. */
GPU_KERNEL combine(float *y, const float *x, const int *slots, const float *weights, const float *shared, int yStride,
                   int xStride, int sharedStride, int perRow, int width, int rows, const int *live) {
    int i = blockIdx.y * blockDim.x + threadIdx.x, row = blockIdx.x;
    if (i >= width || row >= live_rows(rows, live)) {
        return;
    }
    const int *slot = slots + (size_t)row * perRow;
    const float *weight = weights + (size_t)row * perRow;
    float acc = 0.0f;
#pragma unroll 4
    for (int j = 0; j < perRow; j++) {
        acc = __fmaf_rn(weight[j], x[(size_t)slot[j] * xStride + i], acc);
    }
    if (shared) {
        acc = __fadd_rn(acc, shared[(size_t)row * sharedStride + i]);
    }
    y[(size_t)row * yStride + i] = acc;
}
GPU_EXPORT(combine)
