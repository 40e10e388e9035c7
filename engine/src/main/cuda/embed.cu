// Rows of an embedding matrix as F32, bit for bit as Matrix.row in Java: a weight, or code · scale with one rounding. One
// block for 256 columns of one row; a token that the table has not gives NaN.
#include "port.h"

constexpr int EMBED_COLUMNS = 256;

/// Where a thread reads: element (lane, col) of a panel.
struct EmbedElement {
    const unsigned char* panel;
    int lane, col;

    __device__ __forceinline__ unsigned octet(int at) const { return panel[at]; }
    __device__ __forceinline__ float word(long long at) const { return *reinterpret_cast<const float*>(panel + at); }
    __device__ __forceinline__ unsigned half(long long at) const { return *reinterpret_cast<const unsigned short*>(panel + at); }
};

struct EmbedF32 {
    static __device__ __forceinline__ float value(const EmbedElement& e, int) { return e.word(64LL * e.col + 4 * e.lane); }
};
struct EmbedBf16 {
    static __device__ __forceinline__ float value(const EmbedElement& e, int) {
        return bf_lo(e.half(64LL * (e.col / 2) + 4 * e.lane + 2 * (e.col % 2)));
    }
};
struct EmbedInt8 {
    static __device__ __forceinline__ float value(const EmbedElement& e, int) {
        const EmbedElement block = {e.panel + e.col / 64 * 1088LL, e.lane, e.col % 64};
        int code = (signed char)block.octet(64 + block.col / 4 * 64 + 4 * e.lane + block.col % 4);
        return __fmul_rn((float)code, bf_lo(block.half(block.col / 32 * 32 + 2 * e.lane)));
    }
};
struct EmbedInt4 {
    static __device__ __forceinline__ float value(const EmbedElement& e, int) {
        const EmbedElement block = {e.panel + e.col / 64 * 576LL, e.lane, e.col % 64};
        unsigned both = block.octet(64 + block.col / 8 * 64 + 4 * e.lane + block.col % 4);
        int code = (int)(block.col / 4 % 2 ? both >> 4 : both & 15) - 8;
        return __fmul_rn((float)code, bf_lo(block.half(block.col / 32 * 32 + 2 * e.lane)));
    }
};
struct EmbedFp8 {
    static __device__ __forceinline__ float value(const EmbedElement& e, int) {
        const EmbedElement block = {e.panel + e.col / 128 * 2112LL, e.lane, e.col % 128};
        unsigned code = block.octet(64 + block.col / 4 * 64 + 4 * e.lane + block.col % 4);
        return __fmul_rn(e4m3_to_f32(code), block.word(4 * e.lane));
    }
};
/// The form of Exp3sPanel in Java, see project_packed.cu.
struct EmbedPacked {
    static __device__ __forceinline__ float value(const EmbedElement& e, int slices) {
        const unsigned* header = reinterpret_cast<const unsigned*>(e.panel);
        int unit = e.col / 64;
        int step = e.col % 64 / 16;
        int lane = e.lane / 2 * 4 + e.col % 16 / 4;
        int number = 2 * (e.lane % 2 + 2 * (e.col % 4 / 2)) + e.col % 2;
        if (header[2] != 0) {
            return bf_lo(e.half(64 + unit * 2048LL + step * 512 + lane * 16 + 2 * number));
        }
        const EmbedElement block = {e.panel + 64 + unit * 1536LL, 0, 0};
        unsigned nibbles = block.half(1024 + lane * 16 + 4 * step + number / 4 * 2);
        unsigned nibble = nibbles >> 4 * (number % 4) & 15;
        if ((nibble & 7) != 7) {
            unsigned tail = block.octet(step / 2 * 512 + lane * 16 + step % 2 * 8 + number);
            return bf_lo((nibble & 8) << 12 | e.octet(nibble & 7) << 8 | tail);
        }
        // The list of a slice ascends, and this number is in it.
        unsigned place = (unsigned)(unit * 1024 + step * 256 + lane * 8 + number);
        const uint2* list = reinterpret_cast<const uint2*>(e.panel + header[3]) + header[4 + unit % slices];
        while (list->x < place) {
            list++;
        }
        return bf_lo(list->y);
    }
};

struct EmbedTable {
    unsigned long long address;    // of the panels; of PACKED, of their offsets, whose lowest bit marks raw ones
    unsigned long long panelBytes; // 0 of PACKED
    int rows, cols, slices;
};

template <class F>
__device__ __forceinline__ void embed(const EmbedTable& t, const int* tokens, float* y, int stride, int rows, const int* live) {
    int row = blockIdx.x;
    int col = blockIdx.y * EMBED_COLUMNS + threadIdx.x;
    if (col >= t.cols || row >= (live == nullptr ? rows : min(rows, *live))) {
        return;
    }
    float value = __uint_as_float(0x7fc00000u);
    int token = tokens[row];
    if (token >= 0 && token < t.rows) {
        const unsigned char* all = reinterpret_cast<const unsigned char*>(t.address);
        unsigned long long offset =
            t.panelBytes != 0 ? token / 16 * t.panelBytes : reinterpret_cast<const unsigned long long*>(all)[token / 16];
        const EmbedElement element = {all + (offset & ~1ull), token % 16, col};
        value = F::value(element, t.slices);
    }
    y[(long long)row * stride + col] = value;
}

#define EMBED_KERNEL(name, F)                                                                                               \
    GPU_KERNEL name(                                                                                                        \
        unsigned long long address, unsigned long long panelBytes, int tableRows, int cols, int slices, const int* tokens,  \
        float* y, int stride, int rows, const int* live) {                                                                  \
        const EmbedTable table = {address, panelBytes, tableRows, cols, slices};                                            \
        embed<F>(table, tokens, y, stride, rows, live);                                                                     \
    }                                                                                                                       \
    GPU_EXPORT(name)

EMBED_KERNEL(embed_f32, EmbedF32)
EMBED_KERNEL(embed_bf16, EmbedBf16)
EMBED_KERNEL(embed_packed, EmbedPacked)
EMBED_KERNEL(embed_int8, EmbedInt8)
EMBED_KERNEL(embed_int4, EmbedInt4)
EMBED_KERNEL(embed_fp8, EmbedFp8)
