package millrace.engine.batch;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import millrace.engine.GenerationRequest;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/// Who is next, and that everybody is, some time.
class FairnessTest {
    private static final long NEVER = Long.MAX_VALUE;

    private final List<Bench> benches = new ArrayList<>();

    @AfterEach
    void close() {
        benches.forEach(Bench::close);
    }

    private Bench bench(int maxBatch, int pages, long agingMs) {
        Bench bench = new Bench(maxBatch, 64, pages, true, agingMs);
        benches.add(bench);
        return bench;
    }

    private static GenerationRequest request(String id, int maxNewTokens, int priority, long deadlineMs) {
        return Bench.request(id, Bench.ids(id.hashCode(), 10), maxNewTokens, priority, deadlineMs, "");
    }

    /// One slot, and always two prompts of priority 3 waiting for it: after four spans of waiting it is the old one's.
    @Test
    void aStreamOfHighPriorityStarvesNobody() {
        Bench bench = bench(1, 20, 1_000);
        Bench.Run low = bench.submit(request("low", 5, 0, NEVER));
        long endedMs = underStream(bench, low, 20_000);
        assertThat(low.ended()).isTrue();
        assertThat(endedMs).isBetween(3_000L, 4_200L);
        assertThat(bench.order).hasSizeGreaterThan(20).contains("low");
    }

    @Test
    void withoutAgingPriorityIsStrict() {
        Bench bench = bench(1, 20, 0);
        Bench.Run low = bench.submit(request("low", 5, 0, NEVER));
        underStream(bench, low, 20_000);
        assertThat(low.ended()).isFalse();
        bench.runToTheEnd(1_000);
        assertThat(low.ended()).isTrue();
    }

    /// When `low` ended, at the latest after `mostMs`; a step takes 10 ms.
    private static long underStream(Bench bench, Bench.Run low, long mostMs) {
        List<Bench.Run> high = new ArrayList<>();
        while (!low.ended() && bench.clock.epochMs < mostMs) {
            high.removeIf(Bench.Run::ended);
            while (high.size() < 3) {
                high.add(bench.submit(request("high " + bench.clock.epochMs + " " + high.size(), 5, 3, NEVER)));
            }
            bench.scheduler.step();
            bench.clock.advance(10);
        }
        return bench.clock.epochMs;
    }

    @Test
    void earlierDeadlinesAreFirstAmongThoseThatCameTogether() {
        Bench bench = bench(1, 20, 2_000);
        bench.submit(List.of(
                request("never", 2, 0, NEVER), request("late", 2, 0, 90_000), request("soon", 2, 0, 50_000),
                request("soon too", 2, 0, 50_000), request("first", 2, 1, 99_000)));
        bench.clock.advance(2_000);
        bench.submit(request("newer", 2, 0, 10_000));
        bench.runToTheEnd(100);
        assertThat(bench.order).containsExactly("first", "soon", "soon too", "late", "never", "newer");
    }

    /// It waits again at the place that its submission gave it.
    @Test
    void aPreemptedSequenceKeepsItsAge() {
        Bench bench = bench(2, 7, 1_000);
        Bench.Run first = bench.submit(request("first", 70, 1, NEVER));
        Bench.Run second = bench.submit(request("second", 70, 0, NEVER));
        for (int step = 0; bench.scheduler.preemptions() == 0; step++) {
            assertThat(step).isLessThan(200);
            bench.scheduler.step();
            bench.clock.advance(100);
        }
        assertThat(first.ended() || second.ended()).isFalse();
        Bench.Run newer = bench.submit(request("newer", 3, 0, NEVER));
        Bench.Run higher = bench.submit(request("newer, higher", 3, 1, NEVER));
        while (second.sequence.pages == null) {
            assertThat(newer.sequence.pages).isNull();
            assertThat(higher.sequence.pages).isNull();
            bench.scheduler.step();
        }
        bench.runToTheEnd(1_000);
        assertThat(first.end().timings().queuedNanos()).isZero();
        assertThat(second.end().tokenIds()).isEqualTo(Bench.expected(second.request));
    }

    /// In every step the sequence of highest rank goes on if it runs, whatever the others hold.
    @Test
    void theBestOfAllAlwaysGoesOn() {
        for (int round = 0; round < 60; round++) {
            var random = new SplittableRandom(round);
            Bench bench = new Bench(
                    2 + random.nextInt(6), 1 + random.nextInt(40), 8 + random.nextInt(8), random.nextBoolean(),
                    random.nextInt(3) * 50L);
            benches.add(bench);
            List<Bench.Run> runs = new ArrayList<>();
            int tokens = 0;
            int steps = 0;
            while (runs.size() < 40 || !bench.scheduler.idle()) {
                if (runs.size() < 40 && random.nextInt(3) == 0) {
                    GenerationRequest request = Bench.request(
                            "r" + runs.size(), Bench.ids(random.nextInt(9), 1 + random.nextInt(60)),
                            1 + random.nextInt(60), random.nextInt(4), NEVER, "");
                    runs.add(bench.submit(request));
                    tokens += 121;
                }
                assertProgress(bench, runs, "round " + round);
                bench.clock.advance(random.nextInt(30));
                steps++;
                assertThat(steps).as("round %d", round).isLessThan(120 + tokens);
            }
            for (Bench.Run run : runs) {
                assertThat(run.end().tokenIds()).isEqualTo(Bench.expected(run.request));
            }
            bench.assertNothingHeld();
        }
    }

    private static void assertProgress(Bench bench, List<Bench.Run> runs, String name) {
        Bench.Run best = runs.stream()
                .filter(run -> !run.ended())
                .min(Comparator.comparing(run -> run.sequence, (a, b) -> a.outranks(b) ? -1 : 1))
                .orElse(null);
        if (best == null || best.sequence.pages == null) {
            bench.scheduler.step();
            return;
        }
        int computed = best.sequence.computed;
        bench.scheduler.step();
        assertThat(best.ended() || best.sequence.computed > computed).as(name).isTrue();
    }

    /// Two that do not fit together: one is computed to its end, then the other. Neither takes the other's pages twice
    /// for the same token.
    @Test
    void twoSequencesDoNotPreemptEachOtherInTurns() {
        for (boolean sharing : new boolean[] {true, false}) {
            Bench bench = new Bench(2, 16, 9, sharing, 10);
            benches.add(bench);
            Map<String, Integer> preempted = new HashMap<>();
            List<Bench.Run> runs = List.of(
                    bench.submit(unended("a", 1)), bench.submit(unended("b", 50)));
            for (int step = 0; !bench.scheduler.idle(); step++) {
                assertThat(step).isLessThan(2 * 130);
                List<Boolean> held = runs.stream().map(run -> run.sequence.pages != null).toList();
                bench.scheduler.step();
                bench.clock.advance(7);
                for (int i = 0; i < 2; i++) {
                    if (held.get(i) && runs.get(i).sequence.pages == null && !runs.get(i).ended()) {
                        preempted.merge(runs.get(i).request.id(), 1, Integer::sum);
                    }
                }
            }
            assertThat(preempted).containsOnlyKeys("b");
            assertThat(preempted.get("b")).isLessThanOrEqualTo(2);
            assertThat(bench.order).containsExactly("a", "b");
            bench.assertNothingHeld();
        }
    }

    private static GenerationRequest unended(String id, int seed) {
        GenerationRequest request = Bench.greedy(id, Bench.ids(seed, 30), 100);
        return Bench.expected(request).size() == 100 ? request : unended(id, seed + 1);
    }
}
