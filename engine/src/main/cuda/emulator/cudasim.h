// The part of CUDA C++ that kernels use, for a C++ compiler: every CUDA thread is a fiber, a block runs on one thread of
// the operating system, and what a warp does together is a meeting of its fibers. Included by port.h, never by kernels.
//
// Strict where hardware is forgiving: a lane outside its own mask, lanes that meet with different operations or from
// different lines, barriers that not all threads reach, and misaligned wide accesses end the launch with a message that
// names block, thread and source line. What is undefined on a device is poison here.
#pragma once
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static thread_local // a block stays on its thread; filled with poison before each block

#define CUDASIM_VECTOR2(type, name, alignment) \
    struct alignas(alignment) name##2 { type x, y; }; \
    static inline name##2 make_##name##2(type x, type y) { return name##2{x, y}; }
#define CUDASIM_VECTOR4(type, name, alignment) \
    struct alignas(alignment) name##4 { type x, y, z, w; }; \
    static inline name##4 make_##name##4(type x, type y, type z, type w) { return name##4{x, y, z, w}; }
CUDASIM_VECTOR2(float, float, 8)
CUDASIM_VECTOR4(float, float, 16)
CUDASIM_VECTOR2(int, int, 8)
CUDASIM_VECTOR4(int, int, 16)
CUDASIM_VECTOR2(unsigned, uint, 8)
CUDASIM_VECTOR4(unsigned, uint, 16)
CUDASIM_VECTOR2(unsigned short, ushort, 4)
CUDASIM_VECTOR4(unsigned short, ushort, 8)
CUDASIM_VECTOR4(unsigned char, uchar, 4)
struct uint3 { unsigned x, y, z; };
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

namespace cudasim {

constexpr unsigned WARP = 32;
constexpr unsigned MAX_THREADS = 1024;
constexpr unsigned MAX_WARPS = MAX_THREADS / WARP;
constexpr unsigned BARRIERS = 16;
constexpr unsigned MAX_MMA = 8;
constexpr unsigned MAX_COPIES = 64;
constexpr unsigned MAX_BULK = 256;
#if defined(CUDASIM_SANITIZED)
constexpr uintptr_t STACK_BYTES = 256 << 10;
#else
constexpr uintptr_t STACK_BYTES = 64 << 10;
#endif
constexpr uintptr_t STACK_TOP_BYTES = 64;

/// Where in the sources a thread waits.
struct Site {
    const char* file;
    unsigned line;
};

enum Op : uint8_t { NONE, SYNCWARP, SHUFFLE, BALLOT, MATCH, ADD, MIN_I, MAX_I, MIN_U, MAX_U, AND, OR, XOR, MMA_BF16, MMA_F16 };

/// A copy to shared memory that was begun and has not landed.
struct Copy {
    void* to;
    const void* from;
    unsigned bytes, group;
};
struct BulkCopy {
    void* to;
    const void* from;
    unsigned bytes;
    void* barrier;
};

struct Block;

/// What a lane comes to a meeting for, in one word: lanes with the same word meet.
static constexpr uint64_t meetingKey(Op op, uint32_t mask, unsigned line) {
    return static_cast<uint64_t>(line & 0xffffff) << 40 | static_cast<uint64_t>(op) << 32 | mask;
}
static constexpr Op keyOp(uint64_t key) { return static_cast<Op>(key >> 32 & 0xff); }
static constexpr uint32_t keyMask(uint64_t key) { return static_cast<uint32_t>(key); }
static constexpr unsigned keyLine(uint64_t key) { return static_cast<unsigned>(key >> 40); }

/// One warp: who lives, who may run, who waits for the others, and what the waiting ones brought along.
struct alignas(64) Warp {
    uint32_t live, ready, waiting;
    bool mixed;        // not all that wait have the same key
    uint64_t groupKey; // what those that wait have, where it is the same
    uint64_t key[WARP];
    const char* file[WARP];
    uint64_t value[WARP];
    uint64_t result[WARP];
    int32_t source[WARP];
    // mma operands, as the lanes hold them: [which mma][register][lane]
    struct {
        uint8_t count, strideA, strideB, strideD;
    } shape[WARP];
    alignas(64) uint32_t a[MAX_MMA][4][WARP];
    alignas(64) uint32_t b[MAX_MMA][2][WARP];
    alignas(64) float d[MAX_MMA][2][WARP][2];
};

struct alignas(64) Thread {
    void* sp;
    Block* block;
    Warp* warp;
    uint3 index;
    unsigned lane, linear;
    int stack; // -1: has not begun
    unsigned copies, copyGroup;
    Copy* copy;
    void* sanitizer;
};

struct Block {
    uint3 index;
    dim3 size, grid;
    char* dynamicShared;
    size_t dynamicBytes;
    unsigned threads, warps, live;
    uint32_t readyWarps;
    unsigned bulks;
    bool early; // copies land when they are begun, and not when they are waited for
    bool mixed; // each copy lands early or late by chance
    uint64_t random;
    BulkCopy bulk[MAX_BULK];
    unsigned arrived[BARRIERS], expected[BARRIERS];
    Site barrierSite[BARRIERS];
    uint32_t atBarrier[BARRIERS][MAX_WARPS];
};

/// The CUDA thread that runs. Its address stands at the top of the stack, whose place follows from the stack pointer: no
/// thread-local storage is asked, which would cost a call in a library that is loaded late. Only for code of kernels.
static __forceinline__ Thread* current() {
    uintptr_t sp;
#if defined(__x86_64__)
    asm("movq %%rsp, %0" : "=r"(sp));
#else
    sp = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
#endif
    return *reinterpret_cast<Thread**>((sp | (STACK_BYTES - 1)) + 1 - STACK_TOP_BYTES);
}

extern "C" {
void cudasim_barrier(unsigned id, unsigned count, const char* file, unsigned line); // count 0: all threads that live
uint64_t cudasim_collective(Op op, uint32_t mask, uint64_t value, int source, const char* file, unsigned line);
void cudasim_meet(Op op, uint32_t mask, const char* file, unsigned line); // operands already lie in the warp
void cudasim_yield(void);
[[noreturn]] void cudasim_trap(const char* message);
}

// The thread sanitizer knows neither what is under an mbarrier nor that a meeting orders its lanes.
#if defined(CUDASIM_TSAN)
extern "C" void cudasim_release(void* p);
extern "C" void cudasim_acquire(void* p);
#define CUDASIM_UNSEEN __attribute__((no_sanitize("thread"), noinline))
#else
static inline void cudasim_release(void*) {}
static inline void cudasim_acquire(void*) {}
#define CUDASIM_UNSEEN
#endif

/// Whether a copy that begins now lands now.
static inline bool landsEarly(Block* block) {
    if (!block->mixed) {
        return block->early;
    }
    block->random = block->random * 6364136223846793005ull + 1442695040888963407ull;
    return block->random >> 63;
}

template <class T> static __forceinline__ uint64_t toBits(T v) {
    static_assert(sizeof(T) <= 8, "a lane exchanges at most 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &v, sizeof v);
    return bits;
}
template <class T> static __forceinline__ T fromBits(uint64_t bits) {
    T v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/// A kernel that the stand-in driver can launch: its entry takes the arguments by address.
struct Kernel {
    const char* name;
    void (*entry)(void* const* arguments);
    unsigned parameters;
    const uint32_t* sizes;
    const Kernel* next;
};
extern "C" void cudasim_register(Kernel* kernel);

template <auto F> struct Thunk;
template <class... A, void (*F)(A...)> struct Thunk<F> {
    template <size_t... I> static void call(void* const* p, std::index_sequence<I...>) {
        F(*static_cast<std::remove_const_t<A>*>(p[I])...);
    }
    static void entry(void* const* p) { call(p, std::make_index_sequence<sizeof...(A)>()); }
    static constexpr uint32_t sizes[sizeof...(A) + 1] = {static_cast<uint32_t>(sizeof(A))..., 0};
    static constexpr unsigned parameters = sizeof...(A);
};
struct Registration {
    Kernel kernel;
    template <class T> Registration(T, const char* name) : kernel{name, &T::entry, T::parameters, T::sizes, nullptr} {
        cudasim_register(&kernel);
    }
};

} // namespace cudasim

#define threadIdx (::cudasim::current()->index)
#define blockIdx (::cudasim::current()->block->index)
#define blockDim (::cudasim::current()->block->size)
#define gridDim (::cudasim::current()->block->grid)
#define warpSize 32

// Default arguments are evaluated where the function is called: so a report names the kernel's own line.
#define CUDASIM_SITE const char *file = __builtin_FILE(), unsigned line = __builtin_LINE()

static inline void __syncthreads(CUDASIM_SITE) { ::cudasim::cudasim_barrier(0, 0, file, line); }
static inline void __syncwarp(unsigned mask = 0xffffffffu, CUDASIM_SITE) {
    ::cudasim::cudasim_collective(::cudasim::SYNCWARP, mask, 0, 0, file, line);
}
static inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
static inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
[[noreturn]] static inline void __trap() { ::cudasim::cudasim_trap("__trap"); }

template <class T> static inline T cudasim_shuffle(unsigned mask, T v, int from, const char* file, unsigned line) {
    using namespace ::cudasim;
    return fromBits<T>(cudasim_collective(SHUFFLE, mask, toBits(v), from, file, line));
}
template <class T> static inline T __shfl_sync(unsigned mask, T v, int from, int width = 32, CUDASIM_SITE) {
    int lane = static_cast<int>(::cudasim::current()->lane);
    return cudasim_shuffle(mask, v, (lane & ~(width - 1)) | (from & (width - 1)), file, line);
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T v, int bits, int width = 32, CUDASIM_SITE) {
    int lane = static_cast<int>(::cudasim::current()->lane);
    int from = lane ^ bits;
    return cudasim_shuffle(mask, v, (from & ~(width - 1)) > (lane & ~(width - 1)) ? lane : from, file, line);
}
template <class T> static inline T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32, CUDASIM_SITE) {
    int lane = static_cast<int>(::cudasim::current()->lane);
    int from = lane + static_cast<int>(by);
    return cudasim_shuffle(mask, v, (from & ~(width - 1)) != (lane & ~(width - 1)) ? lane : from, file, line);
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32, CUDASIM_SITE) {
    int lane = static_cast<int>(::cudasim::current()->lane);
    int from = lane - static_cast<int>(by);
    return cudasim_shuffle(mask, v, from < (lane & ~(width - 1)) ? lane : from, file, line);
}
static inline unsigned __ballot_sync(unsigned mask, int vote, CUDASIM_SITE) {
    using namespace ::cudasim;
    return static_cast<unsigned>(cudasim_collective(BALLOT, mask, vote != 0, 0, file, line));
}
static inline int __any_sync(unsigned mask, int vote, CUDASIM_SITE) { return __ballot_sync(mask, vote, file, line) != 0; }
static inline int __all_sync(unsigned mask, int vote, CUDASIM_SITE) { return __ballot_sync(mask, !vote, file, line) == 0; }
template <class T> static inline unsigned __match_any_sync(unsigned mask, T v, CUDASIM_SITE) {
    using namespace ::cudasim;
    return static_cast<unsigned>(cudasim_collective(MATCH, mask, toBits(v), 0, file, line));
}
#define CUDASIM_REDUCE(function, type, op) \
    static inline type function(unsigned mask, type v, CUDASIM_SITE) { \
        using namespace ::cudasim; \
        return static_cast<type>(cudasim_collective(op, mask, static_cast<uint32_t>(v), 0, file, line)); \
    }
CUDASIM_REDUCE(__reduce_add_sync, unsigned, ADD)
CUDASIM_REDUCE(__reduce_add_sync, int, ADD)
CUDASIM_REDUCE(__reduce_min_sync, unsigned, MIN_U)
CUDASIM_REDUCE(__reduce_min_sync, int, MIN_I)
CUDASIM_REDUCE(__reduce_max_sync, unsigned, MAX_U)
CUDASIM_REDUCE(__reduce_max_sync, int, MAX_I)
CUDASIM_REDUCE(__reduce_and_sync, unsigned, AND)
CUDASIM_REDUCE(__reduce_or_sync, unsigned, OR)
CUDASIM_REDUCE(__reduce_xor_sync, unsigned, XOR)

template <class T> static inline T __ldg(const T* p) { return *p; }
template <class T> static inline T __ldcs(const T* p) { return *p; }
template <class T> static inline T __ldcg(const T* p) { return *p; }
template <class T> static inline void __stcs(T* p, T v) { *p = v; }

static inline float __uint_as_float(unsigned v) { return ::cudasim::fromBits<float>(v); }
static inline unsigned __float_as_uint(float v) { return static_cast<unsigned>(::cudasim::toBits(v)); }
static inline float __int_as_float(int v) { return ::cudasim::fromBits<float>(static_cast<unsigned>(v)); }
static inline int __float_as_int(float v) { return static_cast<int>(::cudasim::toBits(v)); }
static inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
static inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline double __dsqrt_rn(double a) { return __builtin_sqrt(a); }
static inline long long __double_as_longlong(double v) { return static_cast<long long>(::cudasim::toBits(v)); }
static inline double __longlong_as_double(long long v) { return ::cudasim::fromBits<double>(static_cast<uint64_t>(v)); }
/// Saturates and gives 0 for NaN, as the device does.
static inline int __float2int_rn(float a) {
    return a != a ? 0 : a >= 2147483648.0f ? INT32_MAX : a < -2147483648.0f ? INT32_MIN : static_cast<int>(__builtin_rintf(a));
}
static inline int __float2int_rz(float a) {
    return a != a ? 0 : a >= 2147483648.0f ? INT32_MAX : a < -2147483648.0f ? INT32_MIN : static_cast<int>(a);
}
static inline float __int2float_rn(int a) { return static_cast<float>(a); }
static inline float __uint2float_rn(unsigned a) { return static_cast<float>(a); }
static inline float __double2float_rn(double a) { return static_cast<float>(a); }

/// PTX prmt in its default mode: bit 3 of a selector replicates the byte's sign.
static inline unsigned cudasim_prmt(unsigned a, unsigned b, unsigned selectors) {
    uint64_t bytes = static_cast<uint64_t>(b) << 32 | a;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        unsigned selector = selectors >> (4 * i) & 15;
        unsigned byte = bytes >> (8 * (selector & 7)) & 255;
        result |= ((selector & 8) ? (byte & 0x80) ? 255u : 0u : byte) << (8 * i);
    }
    return result;
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selectors) {
    return cudasim_prmt(a, b, selectors & 0x7777u); // CUDA's own function knows no sign
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
    return static_cast<unsigned>((static_cast<uint64_t>(high) << 32 | low) << (by & 31) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
    return static_cast<unsigned>((static_cast<uint64_t>(high) << 32 | low) >> (by & 31));
}
static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
static inline int __clz(int v) { return v ? __builtin_clz(static_cast<unsigned>(v)) : 32; }
static inline int __clzll(long long v) { return v ? __builtin_clzll(static_cast<unsigned long long>(v)) : 64; }
static inline int __ffs(int v) { return __builtin_ffs(v); }
static inline int __ffsll(long long v) { return __builtin_ffsll(v); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
static inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; i++) {
        c += static_cast<int8_t>(a >> (8 * i)) * static_cast<int8_t>(b >> (8 * i));
    }
    return c;
}
template <class T> static inline std::enable_if_t<std::is_integral<T>::value, T> min(T a, T b) { return a < b ? a : b; }
template <class T> static inline std::enable_if_t<std::is_integral<T>::value, T> max(T a, T b) { return a > b ? a : b; }

// Atomic also between blocks, which run on several threads. Float sums depend on their order: kernels do without.
template <class T> static inline T atomicAdd(T* p, std::common_type_t<T> v) {
    static_assert(std::is_integral<T>::value, "a sum of floats by atomics has no fixed order");
    return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
template <class T> static inline T atomicSub(T* p, std::common_type_t<T> v) { return __atomic_fetch_sub(p, v, __ATOMIC_RELAXED); }
template <class T> static inline T atomicAnd(T* p, std::common_type_t<T> v) { return __atomic_fetch_and(p, v, __ATOMIC_RELAXED); }
template <class T> static inline T atomicOr(T* p, std::common_type_t<T> v) { return __atomic_fetch_or(p, v, __ATOMIC_RELAXED); }
template <class T> static inline T atomicXor(T* p, std::common_type_t<T> v) { return __atomic_fetch_xor(p, v, __ATOMIC_RELAXED); }
template <class T> static inline T atomicExch(T* p, std::common_type_t<T> v) { return __atomic_exchange_n(p, v, __ATOMIC_RELAXED); }
template <class T> static inline T atomicCAS(T* p, std::common_type_t<T> expected, std::common_type_t<T> v) {
    T old = expected;
    __atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return old;
}
template <class T> static inline T atomicMax(T* p, std::common_type_t<T> v) {
    T old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (old < v && !__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
}
template <class T> static inline T atomicMin(T* p, std::common_type_t<T> v) {
    T old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (v < old && !__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return old;
}
