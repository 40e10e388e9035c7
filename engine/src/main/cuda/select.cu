// The positions of the largest scores, as a running choice: what windows of positions before have left, and the next window.
//
// Candidates stand in order of position: those that were kept, then the window's. A radix search finds the order of the
// last one that is to stay, by 11, 11 and 10 bits of a number that orders as scores do; then they move together, of equal
// ones the lowest. Which are chosen is exact, so that neither windows nor threads matter.
//
// Limit: the latency of one block that reads a row's window four times. 32k scores are 64 for each of 512 threads: about 15 µs,
// of which a third is digits that many threads count at once. Rows have blocks of their own.
#include "cache.h"

constexpr int SELECT_DIGITS = 2048;
/// Candidates of a thread that are moved at a time.
constexpr int SELECT_EACH = 4;

/// A number that is larger where a score is: zeros are equal, and NaN is the largest.
__device__ __forceinline__ unsigned order_of(float score) {
    unsigned bits = __float_as_uint(__fadd_rn(score, 0.0f));
    if (score != score) {
        return 0xffffffffu;
    }
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

struct Candidates {
    const unsigned* kept;
    const float* scores;
    int keptCount;
    int count;

    __device__ __forceinline__ unsigned order(int i) const { return i < keptCount ? kept[i] : order_of(scores[i - keptCount]); }
};

/// What a block has in shared memory.
struct SelectShared {
    int* digits; // [SELECT_DIGITS]
    int* found;  // [2]: a digit, and how many of it are wanted
    int* totals; // [2][32], of warps
};

/// Finds the digit of the `wanted`-th largest by a warp: lane 0 has the largest digits.
__device__ __forceinline__ void find_digit(const SelectShared& s, int digits, int wanted) {
    int lane = threadIdx.x & 31;
    int size = digits / 32;
    int top = digits - 1 - lane * size;
    int sum = 0;
    for (int i = 0; i < size; i++) {
        sum += s.digits[top - (i + lane) % size]; // no two lanes in one bank
    }
    int end = sum;
#pragma unroll
    for (int o = 1; o < 32; o *= 2) {
        int other = __shfl_up_sync(GPU_ALL_LANES, end, o);
        end += lane >= o ? other : 0;
    }
    int before = end - sum;
    if (before < wanted && wanted <= end) {
        int digit = top;
        while (before + s.digits[digit] < wanted) {
            before += s.digits[digit--];
        }
        s.found[0] = digit;
        s.found[1] = wanted - before;
    }
}

/// The order of the `wanted`-th largest candidate; `wanted` becomes how many of that order are among them.
__device__ __forceinline__ unsigned last_order(const SelectShared& s, const Candidates& c, int& wanted) {
    unsigned order = 0;
    for (int shift = 21, bits = 11; shift >= 0; bits = shift == 10 ? 10 : 11, shift = shift == 21 ? 10 : shift == 10 ? 0 : -1) {
        for (int d = threadIdx.x; d < SELECT_DIGITS; d += blockDim.x) {
            s.digits[d] = 0;
        }
        __syncthreads();
        unsigned above = shift == 21 ? 0 : 0xffffffffu << (shift + bits);
        for (int i = threadIdx.x; i < c.count; i += blockDim.x) {
            unsigned candidate = c.order(i);
            if (((candidate ^ order) & above) == 0) {
                atomicAdd(&s.digits[candidate >> shift & ((1u << bits) - 1)], 1);
            }
        }
        __syncthreads();
        if (threadIdx.x < 32) {
            find_digit(s, 1 << bits, wanted);
        }
        __syncthreads();
        order |= (unsigned)s.found[0] << shift;
        wanted = s.found[1];
    }
    return order;
}

/// Moves to the front all candidates above `last` and the first `ties` of it. A place that is written is one that was read
/// before the last barrier: nobody moves to the right.
__device__ __forceinline__ void move_chosen(const SelectShared& s, const Candidates& c, unsigned last, int ties, int first,
        int* positions, unsigned* orders) {
    int lane = threadIdx.x & 31;
    int warp = threadIdx.x >> 5;
    int above = 0;
    int equal = 0;
    int turn = 0;
    for (int base = 0; base < c.count; base += SELECT_EACH * blockDim.x, turn ^= 32) {
        unsigned order[SELECT_EACH];
        int position[SELECT_EACH];
        unsigned mine = 0; // those above, and the equal ones times 2^16
#pragma unroll
        for (int e = 0; e < SELECT_EACH; e++) {
            int i = base + SELECT_EACH * (int)threadIdx.x + e;
            bool there = i < c.count;
            order[e] = there ? c.order(i) : 0;
            position[e] = there && i < c.keptCount ? positions[i] : first + i - c.keptCount;
            mine += there && order[e] > last ? 1u : there && order[e] == last ? 0x10000u : 0u;
        }
        unsigned end = mine;
#pragma unroll
        for (int o = 1; o < 32; o *= 2) {
            unsigned other = __shfl_up_sync(GPU_ALL_LANES, end, o);
            end += lane >= o ? other : 0;
        }
        if (lane == 31) {
            s.totals[turn + warp] = (int)end;
        }
        __syncthreads();
        unsigned before = end - mine;
        unsigned all = 0;
        for (int w = 0; w < (int)blockDim.x / 32; w++) {
            unsigned total = (unsigned)s.totals[turn + w];
            before += w < warp ? total : 0;
            all += total;
        }
        int aboveBefore = above + (int)(before & 0xffffu);
        int equalBefore = equal + (int)(before >> 16);
#pragma unroll
        for (int e = 0; e < SELECT_EACH; e++) {
            bool there = base + SELECT_EACH * (int)threadIdx.x + e < c.count;
            bool isAbove = there && order[e] > last;
            bool isEqual = there && order[e] == last;
            if (isAbove || (isEqual && equalBefore < ties)) {
                int to = aboveBefore + (equalBefore < ties ? equalBefore : ties);
                positions[to] = position[e];
                orders[to] = order[e];
            }
            aboveBefore += isAbove;
            equalBefore += isEqual;
        }
        above += (int)(all & 0xffffu);
        equal += (int)(all >> 16);
    }
}

/// Grid (rows), whole warps, up to 1024 threads; 2114 words of shared memory. Adds positions `first` to `first + window` to
/// the choice of every row that sees more than `most`; a row that does not gets a count of -1. Windows come in order.
///
/// @param scores `[row][window]`
/// @param orders of the chosen, `[row][most]`
GPU_KERNEL select_best(const int* counts, const CacheSegment* segments, const int* segmentOf, int most, int first, int window,
        const float* scores, int* chosenCounts, int* chosenPositions, unsigned* orders) {
    GPU_DYN_SHARED(int, shared);
    SelectShared s = {shared, shared + SELECT_DIGITS, shared + SELECT_DIGITS + 2};
    int row = blockIdx.x;
    if (row >= counts[1] || segmentOf[row] < 0) {
        return;
    }
    CacheSegment segment = segments[segmentOf[row]];
    int visible = segment.start + row - segment.firstRow + 1;
    if (visible <= most || first >= visible) {
        if (first == 0 && threadIdx.x == 0) {
            chosenCounts[row] = -1;
        }
        return;
    }
    int* positions = chosenPositions + (long long)row * most;
    orders += (long long)row * most;
    int kept = first < most ? first : most;
    int fresh = visible - first < window ? visible - first : window;
    Candidates c = {orders, scores + (long long)row * window, kept, kept + fresh};
    unsigned last = 0;
    int ties = c.count; // below every order: all stay
    if (c.count > most) {
        ties = most;
        last = last_order(s, c, ties);
    }
    move_chosen(s, c, last, ties, first, positions, orders);
    if (threadIdx.x == 0) {
        chosenCounts[row] = c.count < most ? c.count : most;
    }
}
GPU_EXPORT(select_best)
