/* gate = (gate / (1 + exp(-gate))) · up, exp as ExpMath. */
#include "port.h"

/* A thread for each column; blockIdx.x is the row. */
GPU_KERNEL swiglu(float *gate, const float *up, int gateStride, int upStride, int width, int rows, const int *live) {
    int i = blockIdx.y * blockDim.x + threadIdx.x, row = blockIdx.x;
    if (i >= width || row >= live_rows(rows, live)) {
        return;
    }
    float *at = gate + (size_t)row * gateStride + i;
    *at = gpu_swiglu(*at, up[(size_t)row * upStride + i]);
}
GPU_EXPORT(swiglu)
