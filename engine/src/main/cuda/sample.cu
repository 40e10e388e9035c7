/* Chooses tokens as Sampler.java does, from the same logits, settings and random numbers.
 *
 * The choice is the host's to the token, not by the same arithmetic but by bounds: weights and Gumbel numbers are taken in F32,
 * and whatever the difference to the host's F64 could turn over is left undecided. Then the host, who alone needs the row for
 * it, chooses. That happens to one row in some thousands.
 *
 *   best        the largest score, which is always among those that may win
 *   top_k       the k-th score by counts: exact
 *   top_p       `first`, at which the sum of weights may reach the share, and `last`, at which it must have reached it: above
 *               `first` all are in, below `last` none is, between them nobody knows
 *   min_p       out, in, or within a margin where nobody knows
 *   the draw    the largest of the certain; undecided if another, or one that nobody knows of, is within REACH of it
 *
 * Sums are of integers and have no order. Scores are compared by keys: unsigned integers in the order of the floats. */
#include "port.h"

#define SAMPLE_BINS 256
#define SAMPLE_ONE 1073741824.0f /* the weight of the largest score, 2^30 */
#define SAMPLE_REACH 1.0e-4f     /* twice what x + g can differ from the host's: below 2e-5 for each */
#define SAMPLE_MARGIN 2.0e-5f    /* what a weight can differ from the host's, as a share: below 1.3e-5 */
#define SAMPLE_FARTHEST 22.9f    /* no Gumbel number is larger */
#define SAMPLE_LARGEST 1.0e6f    /* of a score over the temperature: beyond it the host's own rounding counts */

/* How a row is drawn; of 48 bytes, see CudaDraws.java. */
struct SampleRow {
    float temperature, topP, minP, penalty;
    int topK; /* 0 for all */
    int seen; /* index of the bits of tokens with a penalty, -1 for none */
    unsigned seedLow, seedHigh, stepLow, stepHigh;
    int draws; /* 0: this row is not drawn */
    int unused;
};

struct SampleLogits {
    const float *values;
    const unsigned *seen;
    float penalty;
    int vocab;

    /* A score in the order of its key; both zeros are one. */
    __device__ __forceinline__ float score(int i) const {
        float v = values[i];
        if (seen && (seen[i / 32] >> (i % 32) & 1u)) {
            v = v > 0.0f ? __fdiv_rn(v, penalty) : __fmul_rn(v, penalty);
        }
        return __fadd_rn(v, 0.0f);
    }
};

__device__ __forceinline__ unsigned sample_key(float score) {
    unsigned bits = __float_as_uint(score);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float sample_of_key(unsigned key) { return __uint_as_float(key >> 31 ? key & 0x7fffffffu : ~key); }

/* What a score lies below the best, in units of the temperature: at most 0. */
__device__ __forceinline__ float sample_depth(float score, float top, float temperature) {
    return __fdiv_rn(__fsub_rn(score, top), temperature);
}
__device__ __forceinline__ unsigned sample_weight(float depth) { return (unsigned)__float2int_rn(__fmul_rn(gpu_exp(depth), SAMPLE_ONE)); }

/* 2 atanh(s) for |s| <= 1/3, to some 1e-9 of it. */
__device__ __forceinline__ float sample_atanh2(float s) {
    float q = __fmul_rn(s, s);
    float p = 1.0f / 17.0f;
    p = __fmaf_rn(p, q, 1.0f / 15.0f);
    p = __fmaf_rn(p, q, 1.0f / 13.0f);
    p = __fmaf_rn(p, q, 1.0f / 11.0f);
    p = __fmaf_rn(p, q, 1.0f / 9.0f);
    p = __fmaf_rn(p, q, 1.0f / 7.0f);
    p = __fmaf_rn(p, q, 1.0f / 5.0f);
    p = __fmaf_rn(p, q, 1.0f / 3.0f);
    return __fmul_rn(__fadd_rn(s, s), __fmaf_rn(p, q, 1.0f));
}
/* ln of a positive normal number. */
__device__ __forceinline__ float sample_log(float x) {
    unsigned bits = __float_as_uint(x);
    int e = (int)(bits >> 23) - 127;
    float m = __uint_as_float((bits & 0x7fffffu) | 0x3f800000u);
    if (m > 1.41421356f) {
        m = __fmul_rn(m, 0.5f);
        e++;
    }
    float r = sample_atanh2(__fdiv_rn(__fsub_rn(m, 1.0f), __fadd_rn(m, 1.0f)));
    return __fmaf_rn(__int2float_rn(e), 0.693147181f, r);
}
/* -ln(-ln u), u = (word + 1/2) / 2^32: near 1 from what is missing, which has all its digits there. */
__device__ __forceinline__ float sample_gumbel(unsigned word) {
    float minus;
    if (word >> 31) {
        float missing = __fmaf_rn(__uint2float_rn(~word), 2.3283064365386963e-10f, 1.1641532182693481e-10f);
        minus = sample_atanh2(__fdiv_rn(missing, __fsub_rn(2.0f, missing)));
    } else {
        minus = -sample_log(__fmaf_rn(__uint2float_rn(word), 2.3283064365386963e-10f, 1.1641532182693481e-10f));
    }
    return -sample_log(minus);
}

/* CounterRandom.java: the word of a token, of Philox4x32-10 under the seed, at (step, token / 4, 0). */
__device__ __forceinline__ unsigned sample_word(const SampleRow &row, unsigned token) {
    unsigned c0 = row.stepLow, c1 = row.stepHigh, c2 = token >> 2, c3 = 0, k0 = row.seedLow, k1 = row.seedHigh;
#pragma unroll
    for (int round = 0; round < 10; round++) {
        unsigned high0 = __umulhi(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        unsigned high1 = __umulhi(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    unsigned which = token & 3u;
    return which == 0 ? c0 : which == 1 ? c1 : which == 2 ? c2 : c3;
}

/* What the threads of a block share, before `warps` histograms of two words for each bin. */
struct SampleShared {
    unsigned long long total[SAMPLE_BINS];
    unsigned long long above; /* of the keys above the span, then above the answer */
    unsigned long long at;    /* above, with those of the answer */
    unsigned low, high;       /* the span */
    unsigned best, bestToken;
    unsigned largest; /* key of the largest value that was drawn */
    int near, token;
};

/* Counts, or weighs, the keys of a span [low, high] bin by bin. Two words of a bin: 15 bits of a weight each, so that 2^16
 * tokens of a warp do not carry over. */
template <bool MASS>
__device__ __forceinline__ void sample_fill(const SampleLogits &logits, SampleShared *s, unsigned *bins, float top, float temperature, int shift) {
    unsigned low = s->low, high = s->high;
    for (int i = threadIdx.x; i < (int)(blockDim.x / 32) * SAMPLE_BINS * 2; i += blockDim.x) {
        bins[i] = 0;
    }
    __syncthreads();
    unsigned *mine = bins + threadIdx.x / 32 * SAMPLE_BINS * 2;
    for (int i = threadIdx.x; i < logits.vocab; i += blockDim.x) {
        float score = logits.score(i);
        unsigned key = sample_key(score);
        if (key >= low && key <= high) {
            unsigned weight = MASS ? sample_weight(sample_depth(score, top, temperature)) : 1u;
            unsigned bin = (key - low) >> shift;
            if (weight & 0x7fffu) {
                atomicAdd(mine + 2 * bin, weight & 0x7fffu);
            }
            if (weight >> 15) {
                atomicAdd(mine + 2 * bin + 1, weight >> 15);
            }
        }
    }
    __syncthreads();
    for (int bin = threadIdx.x; bin < SAMPLE_BINS; bin += blockDim.x) {
        unsigned long long sum = 0;
        for (unsigned w = 0; w < blockDim.x / 32; w++) {
            const unsigned *two = bins + (w * SAMPLE_BINS + bin) * 2;
            sum += two[0] + ((unsigned long long)two[1] << 15);
        }
        s->total[bin] = sum;
    }
    __syncthreads();
}

/* The span of what follows, after everybody has read what the last one gave. */
__device__ __forceinline__ void sample_span(SampleShared *s, unsigned low, unsigned high, unsigned long long above) {
    __syncthreads();
    if (threadIdx.x == 0) {
        s->low = low;
        s->high = high;
        s->above = above;
    }
    __syncthreads();
}
/* Bits of a key that its bin does not tell. */
__device__ __forceinline__ int sample_shift(const SampleShared *s) {
    unsigned span = s->high - s->low;
    return max(0, 24 - (span ? __clz((int)span) : 32));
}

/* Warp 0: the highest bin with which the sum from above reaches the target, or the lowest; the span becomes that bin. */
__device__ __forceinline__ void sample_narrow(SampleShared *s, unsigned long long target, int shift) {
    int lane = threadIdx.x;
    if (lane < 32) {
        unsigned long long own = 0;
#pragma unroll
        for (int i = 0; i < SAMPLE_BINS / 32; i++) {
            own += s->total[lane * (SAMPLE_BINS / 32) + i];
        }
        unsigned long long from = own; /* of this lane's bins and all above */
#pragma unroll
        for (int o = 1; o < 32; o *= 2) {
            unsigned long long other = __shfl_down_sync(GPU_ALL_LANES, from, o);
            from += lane + o < 32 ? other : 0;
        }
        unsigned long long above = s->above;
        unsigned reached = __ballot_sync(GPU_ALL_LANES, above + from >= target);
        int chosen = reached ? 31 - __clz((int)reached) : 0;
        if (lane == chosen) {
            unsigned long long sum = above + from - own;
            int bin = SAMPLE_BINS / 32 - 1;
            for (; bin > 0 && sum + s->total[lane * (SAMPLE_BINS / 32) + bin] < target; bin--) {
                sum += s->total[lane * (SAMPLE_BINS / 32) + bin];
            }
            unsigned whole = (unsigned)(lane * (SAMPLE_BINS / 32) + bin), low = s->low + (whole << shift);
            s->above = sum;
            s->at = sum + s->total[whole];
            s->high = min(s->high, low + ((1u << shift) - 1u));
            s->low = low;
        }
    }
    __syncthreads();
}

/* The largest key of [low, high] at which the sum of all keys from it on reaches the target, which is not 0; `low` itself if
 * none does. `s->above` and `s->at` are then the sums above it and from it on.
 *
 * `above` is the sum above `high`. */
template <bool MASS>
__device__ __forceinline__ unsigned sample_find(const SampleLogits &logits, SampleShared *s, unsigned *bins, float top, float temperature,
                                                unsigned low, unsigned high, unsigned long long above, unsigned long long target) {
    sample_span(s, low, high, above);
    int shift;
    do {
        shift = sample_shift(s);
        sample_fill<MASS>(logits, s, bins, top, temperature, shift);
        sample_narrow(s, target, shift);
    } while (shift > 0);
    return s->low;
}

/* Which tokens top_k and top_p leave, by their keys: those above `first`, none below `last`. */
struct SampleSpan {
    unsigned first, last; /* between them, both included, nobody knows */
    bool firstSure;       /* but that the one token at `first` is left */
};

/* A block for each row. `token` becomes the row's token, -1 where it is undecided; of rows that are not drawn it is left alone.
 * Shared: SampleShared and 2048 bytes for each warp, of at most 32. */
GPU_KERNEL sample_rows(int *token, const float *logits, int stride, int vocab, const SampleRow *rows, const unsigned *seen, int seenWords) {
    GPU_DYN_SHARED(unsigned char, shared);
    SampleShared *s = (SampleShared *)shared;
    unsigned *bins = (unsigned *)(shared + sizeof(SampleShared));
    SampleRow row = rows[blockIdx.x];
    if (!row.draws) {
        return;
    }
    SampleLogits of = {logits + (size_t)blockIdx.x * stride, row.seen < 0 ? nullptr : seen + (size_t)row.seen * seenWords, row.penalty, vocab};
    float temperature = row.temperature;

    if (threadIdx.x == 0) {
        s->best = 0;
        s->bestToken = 0xffffffffu;
        s->largest = 0;
        s->near = 0;
        s->token = -1;
    }
    __syncthreads();
    unsigned best = 0, bestToken = 0xffffffffu;
    for (int i = threadIdx.x; i < vocab; i += blockDim.x) {
        unsigned key = sample_key(of.score(i));
        if (key > best) {
            best = key;
            bestToken = (unsigned)i;
        }
    }
    unsigned warpBest = __reduce_max_sync(GPU_ALL_LANES, best);
    if (threadIdx.x % 32 == 0) {
        atomicMax(&s->best, warpBest);
    }
    __syncthreads();
    if (best == s->best) {
        atomicMin(&s->bestToken, bestToken);
    }
    __syncthreads();
    best = s->best;
    bestToken = s->bestToken;
    float top = sample_of_key(best);
    if (temperature == 0.0f || row.topK == 1) {
        if (threadIdx.x == 0) {
            token[blockIdx.x] = (int)bestToken;
        }
        return;
    }
    float scale = __fdiv_rn(top, temperature);
    if (!(scale < SAMPLE_LARGEST && scale > -SAMPLE_LARGEST)) {
        if (threadIdx.x == 0) {
            token[blockIdx.x] = -1;
        }
        return;
    }

    /* top_k: above `kth` all are in, of those at it `ties`, below it none. */
    unsigned kth = 0;
    unsigned long long ties = 0;
    SampleSpan span = {0, 0, true};
    if (row.topK > 0 && row.topK < vocab) {
        kth = sample_find<false>(of, s, bins, top, temperature, 0, best, 0, (unsigned)row.topK);
        ties = (unsigned)row.topK - s->above;
        span.first = span.last = kth;
        span.firstSure = s->at == (unsigned)row.topK;
    }
    if (row.topP < 1.0f) {
        unsigned long long mass = 0;
        if (kth < best) {
            /* With a target that nothing reaches, the first bins already say the sum of all. */
            sample_span(s, kth + 1, best, 0);
            sample_fill<true>(of, s, bins, top, temperature, sample_shift(s));
            sample_narrow(s, ~0ull, 0);
            mass = s->at;
        }
        mass += ties * sample_weight(sample_depth(sample_of_key(kth), top, temperature));
        unsigned long long needed = (unsigned long long)__dmul_rn((double)row.topP, (double)mass);
        unsigned long long doubt = (unsigned long long)vocab + (mass >> 17);
        unsigned first = sample_find<true>(of, s, bins, top, temperature, kth, best, 0, needed > doubt ? needed - doubt : 1);
        unsigned last = first;
        if (s->at < needed + doubt || first == kth) {
            last = sample_find<true>(of, s, bins, top, temperature, kth, first, s->above, needed + doubt);
        }
        sample_find<false>(of, s, bins, top, temperature, first, first, 0, 1);
        span.firstSure = s->at == 1 && (first > kth || span.firstSure);
        span.first = first;
        span.last = last;
    }

    /* The best is in by itself, and no value that is less than its own can win. */
    float least = sample_gumbel(sample_word(row, bestToken));
    float largest = least, second = -INFINITY, unknown = -INFINITY;
    unsigned largestToken = bestToken;
    if (threadIdx.x != 0) {
        largest = -INFINITY;
    }
    for (int i = threadIdx.x; i < vocab; i += blockDim.x) {
        float score = of.score(i);
        unsigned key = sample_key(score);
        float depth = sample_depth(score, top, temperature);
        if (key < span.last || (unsigned)i == bestToken || __fadd_rn(depth, SAMPLE_FARTHEST) < least) {
            continue;
        }
        bool sure = key > span.first || (key == span.first && span.firstSure);
        if (row.minP > 0.0f) {
            float weight = gpu_exp(depth), margin = __fmul_rn(weight, SAMPLE_MARGIN);
            if (__fadd_rn(weight, margin) < row.minP) {
                continue;
            }
            sure = sure && __fsub_rn(weight, margin) >= row.minP;
        }
        float value = __fadd_rn(depth, sample_gumbel(sample_word(row, (unsigned)i)));
        if (!sure) {
            unknown = value > unknown ? value : unknown;
        } else if (value > largest) {
            second = largest;
            largest = value;
            largestToken = (unsigned)i;
        } else {
            second = value > second ? value : second;
        }
    }
    unsigned warpLargest = __reduce_max_sync(GPU_ALL_LANES, sample_key(largest));
    if (threadIdx.x % 32 == 0) {
        atomicMax(&s->largest, warpLargest);
    }
    __syncthreads();
    float reach = __fsub_rn(sample_of_key(s->largest), SAMPLE_REACH);
    int near = (largest >= reach) + (second >= reach) + (unknown >= reach);
    if (near) {
        atomicAdd(&s->near, near);
    }
    if (sample_key(largest) == s->largest) {
        atomicExch(&s->token, (int)largestToken); /* if there are several it is undecided anyway */
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        token[blockIdx.x] = s->near == 1 ? s->token : -1;
    }
}
GPU_EXPORT(sample_rows)
