// The only header that kernels include. For nvcc it is thin names for PTX instructions; for a C++ compiler it is the
// emulated device of emulator/cudasim.h. What stands after the two halves is the same source on both sides.
//
// Rules that make both sides give the same bits: every step on floats is one IEEE operation (`__fmaf_rn`, `__fadd_rn`,
// `__fmul_rn`, `__fdiv_rn`, `__fsqrt_rn`; nvcc -fmad=false, C++ -ffp-contract=off), exp is `gpu_exp`, no float atomics,
// nothing approximate. Only mma differs: the order inside one instruction is the device's own.
//
// Dynamic shared memory is `GPU_DYN_SHARED(type, name)`; there is no `extern __shared__`, `__constant__`, texture,
// cooperative group or dynamic parallelism. A kernel is `GPU_KERNEL name(...) {...}` followed by `GPU_EXPORT(name)`, or
// by `GPU_EXPORT_COLD(name)` where it may use local memory; every other kernel with a spill or a stack frame fails the build.
#pragma once

#if defined(__CUDACC__) // ---------------------------------------------------------------------------- a device

#include <stdint.h>

#define GPU_EMULATED 0
#define GPU_KERNEL extern "C" __global__ void
#define GPU_EXPORT(kernel)
#define GPU_EXPORT_COLD(kernel)

__device__ __forceinline__ unsigned char* gpu_dynamic_shared() {
    extern __shared__ __align__(128) unsigned char gpu_dynamic_shared_bytes[];
    return gpu_dynamic_shared_bytes;
}
#define GPU_DYN_SHARED(T, name) T* name = reinterpret_cast<T*>(gpu_dynamic_shared())

/// Barrier `id` (1 to 15) for `threads` threads, a multiple of 32.
__device__ __forceinline__ void gpu_bar_sync(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// Four bytes of b:a by four selectors; bit 3 of a selector replicates the sign of the byte.
__device__ __forceinline__ unsigned gpu_prmt(unsigned a, unsigned b, unsigned selectors) {
    unsigned d;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(selectors));
    return d;
}

/// Read-only data that is used once: past the first-level cache. Aligned to its size.
__device__ __forceinline__ uint4 gpu_ld_stream16(const void* p) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}
__device__ __forceinline__ uint2 gpu_ld_stream8(const void* p) {
    uint2 v;
    asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
    return v;
}
__device__ __forceinline__ unsigned gpu_ld_stream4(const void* p) {
    unsigned v;
    asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(p));
    return v;
}

__device__ __forceinline__ unsigned gpu_shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

/// Begins a copy of 16 bytes from global to shared memory; both aligned to 16.
__device__ __forceinline__ void gpu_cp_async16(void* to, const void* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(gpu_shared_address(to)), "l"(from) : "memory");
}
/// The same for 4 or 8 bytes, aligned to their size.
template <int BYTES> __device__ __forceinline__ void gpu_cp_async_small(void* to, const void* from) {
    static_assert(BYTES == 4 || BYTES == 8, "4 or 8 bytes");
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(gpu_shared_address(to)), "l"(from), "n"(BYTES) : "memory");
}
/// Closes a group of this thread's copies.
__device__ __forceinline__ void gpu_cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most N groups of this thread are on their way. Other threads see the bytes after a barrier.
template <int N> __device__ __forceinline__ void gpu_cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/// d += A(16 x 16) · B(16 x 8) in F32, fragments as in the PTX manual for m16n8k16.
__device__ __forceinline__ void gpu_mma_16816_bf16(float* d, const unsigned* a, const unsigned* b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void gpu_mma_16816_f16(float* d, const unsigned* a, const unsigned* b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
/// N products in order, number i on d + i·D, a + i·A and b + i·B: one meeting of the warp in the emulator.
template <int N, int D, int A, int B> __device__ __forceinline__ void gpu_mma_16816_bf16_n(float* d, const unsigned* a, const unsigned* b) {
#pragma unroll
    for (int i = 0; i < N; i++) {
        gpu_mma_16816_bf16(d + i * D, a + i * A, b + i * B);
    }
}
template <int N, int D, int A, int B> __device__ __forceinline__ void gpu_mma_16816_f16_n(float* d, const unsigned* a, const unsigned* b) {
#pragma unroll
    for (int i = 0; i < N; i++) {
        gpu_mma_16816_f16(d + i * D, a + i * A, b + i * B);
    }
}

/// Two F16 at once: a − b, and a · b + c.
__device__ __forceinline__ unsigned gpu_half2_sub(unsigned a, unsigned b) {
    unsigned d;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
    return d;
}
__device__ __forceinline__ unsigned gpu_half2_fma(unsigned a, unsigned b, unsigned c) {
    unsigned d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
/// Two BF16 at once: a · b + c.
__device__ __forceinline__ unsigned gpu_bf16x2_fma(unsigned a, unsigned b, unsigned c) {
    unsigned d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
__device__ __forceinline__ float f16_to_f32(unsigned short bits) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(bits));
    return f;
}
/// To nearest, ties to even.
__device__ __forceinline__ unsigned short f32_to_f16(float f) {
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(f));
    return bits;
}

// Copies of many bytes by one thread, counted by a barrier object in shared memory: from sm_90 on.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define GPU_HAS_BULK 1
typedef unsigned long long GpuMbarrier;
__device__ __forceinline__ void gpu_mbarrier_init(GpuMbarrier* b, unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(gpu_shared_address(b)), "r"(arrivals) : "memory");
}
/// After the inits, before the first use; the block's barrier follows.
__device__ __forceinline__ void gpu_mbarrier_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
/// Arrives and says how many bytes this phase waits for.
__device__ __forceinline__ void gpu_mbarrier_expect(GpuMbarrier* b, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(gpu_shared_address(b)), "r"(bytes) : "memory");
}
/// Copies `bytes`, a multiple of 16, both sides aligned to 16.
__device__ __forceinline__ void gpu_bulk_copy(void* to, const void* from, unsigned bytes, GpuMbarrier* b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(gpu_shared_address(to)),
                 "l"(from), "r"(bytes), "r"(gpu_shared_address(b))
                 : "memory");
}
/// Waits for the end of the phase with this parity: 0, 1, 0, ...
__device__ __forceinline__ void gpu_mbarrier_wait(GpuMbarrier* b, unsigned parity) {
    unsigned done;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(gpu_shared_address(b)), "r"(parity)
                     : "memory");
    } while (!done);
}
#else
#define GPU_HAS_BULK 0
#endif

#else // ------------------------------------------------------------------------------------- the emulated device

#include "emulator/cudasim.h"

#define GPU_EMULATED 1
#define GPU_HAS_BULK 1
#define GPU_KERNEL extern "C" void
#define GPU_EXPORT(kernel) static ::cudasim::Registration cudasim_registration_##kernel(::cudasim::Thunk<&kernel>(), #kernel);
#define GPU_EXPORT_COLD(kernel) GPU_EXPORT(kernel)
#define GPU_DYN_SHARED(T, name) T* name = reinterpret_cast<T*>(::cudasim::current()->block->dynamicShared)

static inline void gpu_bar_sync(int id, int threads, CUDASIM_SITE) {
    ::cudasim::cudasim_barrier(static_cast<unsigned>(id), static_cast<unsigned>(threads), file, line);
}
static inline unsigned gpu_prmt(unsigned a, unsigned b, unsigned selectors) { return cudasim_prmt(a, b, selectors); }

static __forceinline__ void cudasim_aligned(const void* p, unsigned bytes, const char* message) {
    if (reinterpret_cast<uintptr_t>(p) & (bytes - 1)) {
        ::cudasim::cudasim_trap(message);
    }
}
static inline uint4 gpu_ld_stream16(const void* p) {
    cudasim_aligned(p, 16, "a load of 16 bytes is not aligned to 16");
    return *static_cast<const uint4*>(p);
}
static inline uint2 gpu_ld_stream8(const void* p) {
    cudasim_aligned(p, 8, "a load of 8 bytes is not aligned to 8");
    return *static_cast<const uint2*>(p);
}
static inline unsigned gpu_ld_stream4(const void* p) {
    cudasim_aligned(p, 4, "a load of 4 bytes is not aligned to 4");
    return *static_cast<const unsigned*>(p);
}

static inline void cudasim_copy(void* to, const void* from, unsigned bytes) {
    ::cudasim::Thread* t = ::cudasim::current();
    cudasim_aligned(to, bytes, "cp.async: the target is not aligned to the size of the copy");
    cudasim_aligned(from, bytes, "cp.async: the source is not aligned to the size of the copy");
    if (::cudasim::landsEarly(t->block)) {
        memcpy(to, from, bytes);
        return;
    }
    if (t->copies == ::cudasim::MAX_COPIES) {
        ::cudasim::cudasim_trap("cp.async: more than 64 copies of a thread on their way");
    }
    t->copy[t->copies++] = {to, from, bytes, t->copyGroup};
}
static inline void gpu_cp_async16(void* to, const void* from) { cudasim_copy(to, from, 16); }
template <int BYTES> static inline void gpu_cp_async_small(void* to, const void* from) {
    static_assert(BYTES == 4 || BYTES == 8, "4 or 8 bytes");
    cudasim_copy(to, from, BYTES);
}
static inline void gpu_cp_async_commit() { ::cudasim::current()->copyGroup++; }
template <int N> static inline void gpu_cp_async_wait() {
    ::cudasim::Thread* t = ::cudasim::current();
    unsigned left = 0;
    for (unsigned i = 0; i < t->copies; i++) {
        ::cudasim::Copy c = t->copy[i];
        if (c.group + N < t->copyGroup) {
            memcpy(c.to, c.from, c.bytes);
        } else {
            t->copy[left++] = c;
        }
    }
    t->copies = left;
}

template <int N, int D, int A, int B>
static __forceinline__ void cudasim_mma(::cudasim::Op op, float* d, const unsigned* a, const unsigned* b, const char* file, unsigned line) {
    using namespace ::cudasim;
    static_assert(N >= 1 && N <= static_cast<int>(MAX_MMA), "at most 8 products in one meeting");
    static_assert((D == 0 || D == 4) && (A == 0 || A == 4) && (B == 0 || B == 2), "operands lie one behind the other or are shared");
    Thread* t = current();
    Warp* w = t->warp;
    unsigned lane = t->lane;
    w->shape[lane] = {N, A, B, D};
    for (int i = 0; i < (A ? N : 1); i++) {
        for (int r = 0; r < 4; r++) {
            w->a[i][r][lane] = a[i * A + r];
        }
    }
    for (int i = 0; i < (B ? N : 1); i++) {
        for (int r = 0; r < 2; r++) {
            w->b[i][r][lane] = b[i * B + r];
        }
    }
    for (int i = 0; i < (D ? N : 1); i++) {
        memcpy(w->d[i][0][lane], d + i * D, 8);
        memcpy(w->d[i][1][lane], d + i * D + 2, 8);
    }
    cudasim_meet(op, 0xffffffffu, file, line);
    for (int i = 0; i < (D ? N : 1); i++) {
        memcpy(d + i * D, w->d[i][0][lane], 8);
        memcpy(d + i * D + 2, w->d[i][1][lane], 8);
    }
}
static inline void gpu_mma_16816_bf16(float* d, const unsigned* a, const unsigned* b, CUDASIM_SITE) {
    cudasim_mma<1, 0, 0, 0>(::cudasim::MMA_BF16, d, a, b, file, line);
}
static inline void gpu_mma_16816_f16(float* d, const unsigned* a, const unsigned* b, CUDASIM_SITE) {
    cudasim_mma<1, 0, 0, 0>(::cudasim::MMA_F16, d, a, b, file, line);
}
template <int N, int D, int A, int B> static inline void gpu_mma_16816_bf16_n(float* d, const unsigned* a, const unsigned* b, CUDASIM_SITE) {
    cudasim_mma<N, D, A, B>(::cudasim::MMA_BF16, d, a, b, file, line);
}
template <int N, int D, int A, int B> static inline void gpu_mma_16816_f16_n(float* d, const unsigned* a, const unsigned* b, CUDASIM_SITE) {
    cudasim_mma<N, D, A, B>(::cudasim::MMA_F16, d, a, b, file, line);
}

static inline float f16_to_f32(unsigned short bits) {
    _Float16 h;
    memcpy(&h, &bits, sizeof h);
    return static_cast<float>(h);
}
static inline unsigned short f32_to_f16(float f) {
    _Float16 h = static_cast<_Float16>(f);
    unsigned short bits;
    memcpy(&bits, &h, sizeof h);
    return bits;
}
static inline unsigned gpu_half2_sub(unsigned a, unsigned b) {
    // Exact in F32, so the one rounding is that to F16.
    unsigned low = f32_to_f16(f16_to_f32(static_cast<unsigned short>(a)) - f16_to_f32(static_cast<unsigned short>(b)));
    unsigned high = f32_to_f16(f16_to_f32(static_cast<unsigned short>(a >> 16)) - f16_to_f32(static_cast<unsigned short>(b >> 16)));
    return high << 16 | low;
}
static inline unsigned short cudasim_half_fma(unsigned a, unsigned b, unsigned c) {
    // The product is exact in F32 and the sum in F64.
    double product = static_cast<double>(f16_to_f32(static_cast<unsigned short>(a))) * f16_to_f32(static_cast<unsigned short>(b));
    _Float16 h = static_cast<_Float16>(product + f16_to_f32(static_cast<unsigned short>(c)));
    unsigned short bits;
    memcpy(&bits, &h, sizeof h);
    return bits;
}
static inline unsigned gpu_half2_fma(unsigned a, unsigned b, unsigned c) {
    return static_cast<unsigned>(cudasim_half_fma(a >> 16, b >> 16, c >> 16)) << 16 | cudasim_half_fma(a, b, c);
}

/// Rounded once, like on a device: the sum keeps in its last bit whether it is exact, and is rounded to 8 bits from there.
static inline unsigned cudasim_bf16_fma(unsigned a, unsigned b, unsigned c) {
    auto value = [](unsigned half) {
        uint32_t bits = half << 16;
        float f;
        memcpy(&f, &bits, sizeof f);
        return static_cast<double>(f);
    };
    double product = value(a & 0xffff) * value(b & 0xffff);
    double addend = value(c & 0xffff);
    double sum = product + addend;
    double part = sum - product;
    double error = (product - (sum - part)) + (addend - part);
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if (error != 0 && (bits & 1) == 0) { // not for NaN, and an infinity has none
        sum = nextafter(sum, error > 0 ? INFINITY : -INFINITY);
    }
    float rounded = static_cast<float>(sum);
    if (isfinite(sum) && sum != 0) {
        int step = (ilogb(sum) < -126 ? -126 : ilogb(sum)) - 7;
        rounded = static_cast<float>(scalbn(rint(scalbn(sum, -step)), step));
    }
    uint32_t result;
    memcpy(&result, &rounded, sizeof result);
    return rounded == rounded ? result >> 16 : 0x7fff;
}
static inline unsigned gpu_bf16x2_fma(unsigned a, unsigned b, unsigned c) {
    return cudasim_bf16_fma(a >> 16, b >> 16, c >> 16) << 16 | cudasim_bf16_fma(a, b, c);
}

/// In the 8 bytes that it has on a device.
union GpuMbarrier {
    unsigned long long raw;
    struct {
        int32_t bytes;
        uint16_t arrivals;
        uint16_t pending : 15, phase : 1;
    } s;
};
CUDASIM_UNSEEN static inline void cudasim_mbarrier_step(GpuMbarrier* b) {
    if (b->s.pending == 0 && b->s.bytes == 0) {
        b->s.phase ^= 1;
        b->s.pending = b->s.arrivals & 0x7fff;
    }
}
CUDASIM_UNSEEN static inline void gpu_mbarrier_init(GpuMbarrier* b, unsigned arrivals) {
    b->raw = 0;
    b->s.arrivals = static_cast<uint16_t>(arrivals);
    b->s.pending = arrivals & 0x7fff;
}
static inline void gpu_mbarrier_fence() {}
CUDASIM_UNSEEN static inline void gpu_mbarrier_expect(GpuMbarrier* b, unsigned bytes) {
    if (b->s.arrivals == 0 || b->s.arrivals > ::cudasim::MAX_THREADS) {
        ::cudasim::cudasim_trap("mbarrier: used before its init");
    }
    if (b->s.pending == 0) {
        ::cudasim::cudasim_trap("mbarrier: more arrivals than its init says");
    }
    b->s.bytes += static_cast<int32_t>(bytes);
    b->s.pending = (b->s.pending - 1) & 0x7fff;
    ::cudasim::cudasim_release(b);
    cudasim_mbarrier_step(b);
}
CUDASIM_UNSEEN static inline void cudasim_bulk_land(const ::cudasim::BulkCopy& c) {
    GpuMbarrier* b = static_cast<GpuMbarrier*>(c.barrier);
    memcpy(c.to, c.from, c.bytes);
    b->s.bytes -= static_cast<int32_t>(c.bytes);
    ::cudasim::cudasim_release(b);
    cudasim_mbarrier_step(b);
}
CUDASIM_UNSEEN static inline void gpu_bulk_copy(void* to, const void* from, unsigned bytes, GpuMbarrier* b) {
    ::cudasim::Block* block = ::cudasim::current()->block;
    if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | bytes) & 15) {
        ::cudasim::cudasim_trap("cp.async.bulk: target, source or size is no multiple of 16");
    }
    if (::cudasim::landsEarly(block)) {
        cudasim_bulk_land({to, from, bytes, b});
        return;
    }
    if (block->bulks == ::cudasim::MAX_BULK) {
        ::cudasim::cudasim_trap("cp.async.bulk: more than 256 copies of a block on their way");
    }
    block->bulk[block->bulks++] = {to, from, bytes, b};
}
CUDASIM_UNSEEN static inline void gpu_mbarrier_wait(GpuMbarrier* b, unsigned parity) {
    ::cudasim::Block* block = ::cudasim::current()->block;
    while (b->s.phase == (parity & 1)) {
        unsigned left = 0;
        for (unsigned i = 0; i < block->bulks; i++) {
            ::cudasim::BulkCopy c = block->bulk[i];
            if (c.barrier == b) {
                cudasim_bulk_land(c);
            } else {
                block->bulk[left++] = c;
            }
        }
        block->bulks = left;
        if (b->s.phase == (parity & 1)) {
            ::cudasim::cudasim_yield();
        }
    }
    ::cudasim::cudasim_acquire(b);
}

#endif // ------------------------------------------------------------------------------------------- both sides

#define GPU_ALL_LANES 0xffffffffu

/// The two BF16 of a word as F32, exactly.
__device__ __forceinline__ float bf_lo(unsigned word) { return __uint_as_float(word << 16); }
__device__ __forceinline__ float bf_hi(unsigned word) { return __uint_as_float(word & 0xffff0000u); }
__device__ __forceinline__ float bf16_to_f32(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }

/// The nearest BF16, ties to the even one; a NaN stays one and becomes quiet. As BFloat16.fromFloat in Java.
__device__ __forceinline__ unsigned short f32_to_bf16(float f) {
    unsigned bits = __float_as_uint(f);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (unsigned short)(bits >> 16 | 0x40u);
    }
    return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
__device__ __forceinline__ unsigned pack_bf16(float low, float high) {
    return (unsigned)f32_to_bf16(high) << 16 | f32_to_bf16(low);
}

/// An F32 as a sum of three BF16: exact but for a rest of at most 2⁻²⁵ of it. Infinities and NaN stay in `high`.
__device__ __forceinline__ void split_bf16(float f, unsigned short& high, unsigned short& mid, unsigned short& low) {
    high = f32_to_bf16(f);
    float h = bf16_to_f32(high);
    bool finite = (__float_as_uint(h) & 0x7f800000u) != 0x7f800000u;
    float rest = finite ? __fsub_rn(f, h) : 0.0f;
    mid = f32_to_bf16(rest);
    low = f32_to_bf16(__fsub_rn(rest, bf16_to_f32(mid)));
}
/// The same for the two values of a word of an mma operand.
__device__ __forceinline__ void split_bf16x2(float first, float second, unsigned& high, unsigned& mid, unsigned& low) {
    unsigned short h0, m0, l0, h1, m1, l1;
    split_bf16(first, h0, m0, l0);
    split_bf16(second, h1, m1, l1);
    high = (unsigned)h1 << 16 | h0;
    mid = (unsigned)m1 << 16 | m0;
    low = (unsigned)l1 << 16 | l0;
}

/// The sum over a warp in one fixed order: a butterfly, the same value in all lanes.
__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int o = 16; o; o >>= 1) {
        v = __fadd_rn(v, __shfl_xor_sync(GPU_ALL_LANES, v, o));
    }
    return v;
}

/// ExpMath.exp of Java, bit for bit: 2ⁿ · p(r) without the special-function unit.
__device__ __forceinline__ float gpu_exp(float value) {
    float x = value > 89.0f ? 89.0f : value;
    x = x < -104.0f ? -104.0f : x; // a NaN passes both
    float rounded = __fmaf_rn(x, 1.44269504f, 12582912.0f);
    int n = __float_as_int(rounded) - __float_as_int(12582912.0f);
    float whole = __fsub_rn(rounded, 12582912.0f);
    float r = __fmaf_rn(-whole, 0.693359375f, x);
    r = __fmaf_rn(-whole, -2.12194440e-4f, r);
    float p = __fmaf_rn(1.9875691500e-4f, r, 1.3981999507e-3f);
    p = __fmaf_rn(p, r, 8.3334519073e-3f);
    p = __fmaf_rn(p, r, 4.1665795894e-2f);
    p = __fmaf_rn(p, r, 1.6666665459e-1f);
    p = __fmaf_rn(p, r, 5.0000001201e-1f);
    p = __fadd_rn(__fmaf_rn(p, __fmul_rn(r, r), r), 1.0f);
    int half = n >> 1;
    float low = __int_as_float((int)((unsigned)(half + 127) << 23));
    float high = __int_as_float((int)((unsigned)(n - half + 127) << 23));
    return __fmul_rn(__fmul_rn(p, low), high);
}
/// ExpMath.sigmoid, bit for bit.
__device__ __forceinline__ float gpu_sigmoid(float x) { return __fdiv_rn(1.0f, __fadd_rn(1.0f, gpu_exp(-x))); }

/// silu(gate) · up, silu(z) = z / (1 + exp(-z)).
__device__ __forceinline__ float gpu_swiglu(float gate, float up) {
    return __fmul_rn(__fdiv_rn(gate, __fadd_rn(1.0f, gpu_exp(-gate))), up);
}

/// Splitmix64: the finalizer, and the step that begins with it.
__device__ __forceinline__ unsigned long long gpu_mix64(unsigned long long z) {
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
}
__device__ __forceinline__ unsigned long long splitmix64(unsigned long long x) { return gpu_mix64(x + 0x9E3779B97F4A7C15ull); }

/// FP8 e4m3fn as F32, exactly; NaN for its two codes of NaN. As Float8.toFloat in Java.
__device__ __forceinline__ float e4m3_to_f32(unsigned code) {
    if ((code & 0x7fu) == 0x7fu) {
        return __uint_as_float(0x7fc00000u);
    }
    // Exponent and mantissa where F32 has them; the product by 2^120 is exact also for the smallest codes.
    return __fmul_rn(__uint_as_float((code & 0x80u) << 24 | (code & 0x7fu) << 20), __uint_as_float(0x7b800000u));
}
/// The nearest code, ties to the even one, at most ±448; NaN gives NaN. As Float8.fromFloat in Java.
__device__ __forceinline__ unsigned f32_to_e4m3(float value) {
    unsigned bits = __float_as_uint(value);
    unsigned sign = bits >> 24 & 0x80u;
    unsigned magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return sign | 0x7fu;
    }
    if (magnitude >= 0x43e00000u) { // 448
        return sign | 0x7eu;
    }
    if (magnitude < 0x3c800000u) { // below 2^-6 a step is 2^-9: adding 1.5 · 2^14 rounds to it
        float rounded = __fadd_rn(__uint_as_float(magnitude), 24576.0f);
        return sign | (__float_as_uint(rounded) - __float_as_uint(24576.0f));
    }
    // Round the mantissa to 3 bits; a carry goes into the exponent. 120 is the difference of the biases.
    unsigned rounded = (magnitude + 0x7ffffu + (magnitude >> 20 & 1u)) >> 20;
    return sign | (rounded - (120u << 3));
}

/// Rows of a step that are there, of at most `rows`: those from *live on are absent. `live` may be null.
__device__ __forceinline__ int live_rows(int rows, const int* live) { return live ? min(rows, *live) : rows; }
