/* Rotary embedding, in place, of pairs of dimensions of each head: fma(x0, cos, -(x1 · sin)), fma(x1, cos, x0 · sin). */
#include "port.h"

/* A thread for each of the heads · half pairs of a row; blockIdx.x is the row. `angles` holds a row's cosines, then its
 * sines. A pair is (2i, 2i + 1) where `interleaved`, else (i, i + half), counted from dimension `from` of the head. */
GPU_KERNEL rotate(float *x, const float *angles, int xStride, int anglesStride, int heads, int headDim, int from, int half,
                  int interleaved, int rows, const int *live) {
    int pair = blockIdx.y * blockDim.x + threadIdx.x, row = blockIdx.x;
    if (pair >= heads * half || row >= live_rows(rows, live)) {
        return;
    }
    int head = pair / half, i = pair % half;
    float *at = x + (size_t)row * xStride + (size_t)head * headDim + from;
    float *first = interleaved ? at + 2 * i : at + i;
    float *second = interleaved ? first + 1 : first + half;
    const float *a = angles + (size_t)row * anglesStride;
    float x0 = *first, x1 = *second, cosine = a[i], sine = a[half + i];
    *first = __fmaf_rn(x0, cosine, -__fmul_rn(x1, sine));
    *second = __fmaf_rn(x1, cosine, __fmul_rn(x0, sine));
}
GPU_EXPORT(rotate)
