package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class TokenBucketTest {
    private static final long MS = 1_000_000L;
    private static final int RUNS = 2_000;

    private static boolean grant(TokenBucket bucket, long tokens, long now) {
        boolean granted = bucket.waitMs(tokens, now) == 0;
        if (granted) {
            bucket.take(tokens, now);
        }
        return granted;
    }

    @Test
    void holdsOneMinuteAndFillsEvenly() {
        TokenBucket bucket = new TokenBucket(600, 1, 1, 0);
        assertThat(grant(bucket, 600, 0)).isTrue();
        assertThat(bucket.waitMs(1, 0)).isEqualTo(100);
        assertThat(bucket.waitMs(10, 0)).isEqualTo(1_000);
        assertThat(bucket.tokens(500 * MS)).isEqualTo(5);
        assertThat(bucket.tokens(3_600_000 * MS)).as("no more than a minute's").isEqualTo(600);
    }

    @Test
    void grantsItsShareOfThePartitions() {
        TokenBucket bucket = new TokenBucket(600, 4, 1, 0);
        assertThat(bucket.tokens(0)).isEqualTo(150);
        bucket.take(150, 0);
        assertThat(bucket.waitMs(1, 0)).isEqualTo(400);
        assertThat(bucket.tokens(60_000 * MS)).isEqualTo(150);
    }

    @Test
    void letsWhatIsLargerThanItsShareWaitUntilItIsFull() {
        TokenBucket bucket = new TokenBucket(600, 4, 1, 0);
        assertThat(grant(bucket, 500, 0)).isTrue();
        assertThat(bucket.tokens(0)).isEqualTo(-350);
        assertThat(bucket.waitMs(1, 0)).isEqualTo(351 * 400);
        assertThat(bucket.waitMs(500, 0)).as("until it is full").isEqualTo(500 * 400);
    }

    @Test
    void aRebalanceGivesNobodyTokens() {
        TokenBucket bucket = new TokenBucket(600, 4, 4, 0);
        bucket.take(500, 0);
        bucket.resize(600, 1, 0);
        assertThat(bucket.tokens(0)).isEqualTo(100);
        bucket.resize(600, 4, 0);
        assertThat(bucket.tokens(0)).isEqualTo(100);
        bucket.give(500, 0);
        bucket.resize(600, 1, 0);
        assertThat(bucket.tokens(0)).as("no more than the share's minute").isEqualTo(150);
        bucket.resize(60, 1, 0);
        assertThat(bucket.tokens(0)).isEqualTo(15);
    }

    @Test
    void doesNotMindAClockThatStandsOrGoesBack() {
        TokenBucket bucket = new TokenBucket(600, 1, 1, 1_000 * MS);
        bucket.take(600, 1_000 * MS);
        assertThat(bucket.tokens(0)).isZero();
        assertThat(bucket.tokens(1_100 * MS)).isEqualTo(1);
    }

    @Test
    void countsWithoutOverflowAtItsLimits() {
        TokenBucket bucket = new TokenBucket(TokenBucket.MOST_PER_MINUTE, TokenBucket.MOST_PARTS, TokenBucket.MOST_PARTS, 0);
        for (int i = 0; i < 1_000; i++) {
            bucket.take(2L * Integer.MAX_VALUE, Long.MAX_VALUE / 2);
        }
        assertThat(bucket.tokens(Long.MAX_VALUE / 2)).isNegative();
        assertThat(bucket.waitMs(1, Long.MAX_VALUE / 2)).isPositive();
        assertThat(bucket.tokens(Long.MAX_VALUE)).isEqualTo(TokenBucket.MOST_PER_MINUTE);
        TokenBucket small = new TokenBucket(1, TokenBucket.MOST_PARTS, 1, 0);
        small.take(1, 0);
        assertThat(small.waitMs(1, 0)).isEqualTo(60_000L * TokenBucket.MOST_PARTS);
        TokenBucket none = new TokenBucket(600, 4, 0, 0);
        assertThat(none.waitMs(1, 0)).isEqualTo(60_000);
    }

    private record Flow(long atMs, long tokens) {}

    /// Whatever is asked and given back: over any span no more is used than flows in, the bucket, and one debt; what is
    /// refused is granted after the time that was said, and not a millisecond earlier.
    @Test
    void keepsItsBoundsForAnyDemand() {
        for (int run = 0; run < RUNS; run++) {
            SplittableRandom random = new SplittableRandom(run);
            long perMinute = 1 + random.nextLong(run % 2 == 0 ? 50 : 100_000);
            int parts = 1 + random.nextInt(8);
            int share = 1 + random.nextInt(parts);
            TokenBucket bucket = new TokenBucket(perMinute, parts, share, 0);
            long now = random.nextInt(3) * 333_333L;
            List<Flow> flows = new ArrayList<>();
            for (int i = 0; i < 60; i++) {
                now += random.nextInt(4) == 0 ? 0 : random.nextLong(20_000 * MS);
                long tokens = 1 + random.nextLong(perMinute);
                long wait = bucket.waitMs(tokens, now);
                if (wait == 0) {
                    bucket.take(tokens, now);
                    long unused = random.nextInt(3) == 0 ? random.nextLong(tokens) : 0;
                    flows.add(new Flow(now / MS, tokens - unused));
                    bucket.give(unused, now);
                } else if (random.nextBoolean()) {
                    assertThat(bucket.waitMs(tokens, now + (wait - 1) * MS)).as("seed %d, too early", run).isPositive();
                    now += wait * MS;
                    assertThat(bucket.waitMs(tokens, now)).as("seed %d, in time", run).isZero();
                }
            }
            checkSpans(run, flows, perMinute, parts, share);
        }
    }

    private static void checkSpans(int run, List<Flow> flows, long perMinute, int parts, int share) {
        for (int from = 0; from < flows.size(); from++) {
            long used = 0;
            for (int to = from; to < flows.size(); to++) {
                used += flows.get(to).tokens();
                double inflow = (flows.get(to).atMs() - flows.get(from).atMs() + 1) * (double) perMinute * share / parts / 60_000;
                double bucket = (double) perMinute * share / parts;
                double debt = perMinute - bucket;
                assertThat((double) used).as("seed %d, uses %d to %d", run, from, to).isLessThanOrEqualTo(inflow + bucket + debt + 1);
            }
        }
    }
}
