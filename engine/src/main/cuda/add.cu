/* x += y. */
#include "port.h"

/* A thread for each column; blockIdx.x is the row. */
GPU_KERNEL add(float *x, const float *y, int xStride, int yStride, int width, int rows, const int *live) {
    int i = blockIdx.y * blockDim.x + threadIdx.x, row = blockIdx.x;
    if (i >= width || row >= live_rows(rows, live)) {
        return;
    }
    float *at = x + (size_t)row * xStride + i;
    *at = __fadd_rn(*at, y[(size_t)row * yStride + i]);
}
GPU_EXPORT(add)
