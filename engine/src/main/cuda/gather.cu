/* y[i] = x[sources[i]], by rows. */
#include "port.h"

/* A thread for each column; blockIdx.x is the row of y. y does not overlap x. */
GPU_KERNEL gather(float *y, const float *x, const int *sources, int yStride, int xStride, int width, int rows,
                  const int *live) {
    int i = blockIdx.y * blockDim.x + threadIdx.x, row = blockIdx.x;
    if (i >= width || row >= live_rows(rows, live)) {
        return;
    }
    y[(size_t)row * yStride + i] = x[(size_t)sources[row] * xStride + i];
}
GPU_EXPORT(gather)

/* The same with y = x, where sources[i] >= i: a thread takes its column from the first row to the last, and reads a few
 * rows before it writes as many, so that what it reads is never one that it wrote. */
GPU_KERNEL gather_in_place(float *x, const int *sources, int stride, int width, int rows, const int *live) {
    const int AHEAD = 8;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= width) {
        return;
    }
    int count = live_rows(rows, live);
    for (int first = 0; first < count; first += AHEAD) {
        float values[AHEAD];
#pragma unroll
        for (int r = 0; r < AHEAD; r++) {
            if (first + r < count) {
                values[r] = x[(size_t)sources[first + r] * stride + i];
            }
        }
#pragma unroll
        for (int r = 0; r < AHEAD; r++) {
            if (first + r < count) {
                x[(size_t)(first + r) * stride + i] = values[r];
            }
        }
    }
}
GPU_EXPORT(gather_in_place)
