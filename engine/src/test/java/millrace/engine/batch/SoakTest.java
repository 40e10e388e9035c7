package millrace.engine.batch;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import millrace.engine.FinishReason;
import millrace.engine.GenerationRequest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// 20,000 short requests with cancellations, deadlines, priorities, tenants and shared prefixes in a pool that is too
/// small for them: every token is right, memory stays flat, and at the end no page is held.
class SoakTest {
    private static final int REQUESTS = 20_000;
    private static final int PAGES = 15;

    @Test
    @Timeout(120)
    void memoryIsFlatAndNoPageIsLost() {
        var random = new SplittableRandom(20261201);
        try (Bench bench = new Bench(12, 48, PAGES, true, 200)) {
            bench.model.recording = false;
            int spoilt = 777;
            bench.model.spoilt = step -> step % 1_000 == spoilt;
            List<Bench.Run> live = new ArrayList<>();
            int[] reasons = new int[FinishReason.values().length];
            long heapEarly = 0;
            int submitted = 0;
            while (submitted < REQUESTS || !live.isEmpty()) {
                while (submitted < REQUESTS && live.size() < 24) {
                    live.add(bench.submit(request(random, bench, submitted++)));
                }
                if (random.nextInt(3) == 0) {
                    live.get(random.nextInt(live.size())).sequence.cancel();
                }
                bench.scheduler.step();
                bench.clock.advance(1 + random.nextInt(20));
                for (Bench.Run run : live) {
                    if (run.ended()) {
                        reasons[run.end().reason().ordinal()]++;
                        check(run);
                    }
                }
                live.removeIf(Bench.Run::ended);
                if (submitted >= REQUESTS / 4 && heapEarly == 0) {
                    bench.order.clear();
                    heapEarly = heap();
                }
            }
            bench.order.clear();
            assertThat(heap() - heapEarly).as("bytes that the heap grew by").isLessThan(2 << 20);
            for (FinishReason reason : List.of(
                    FinishReason.STOP, FinishReason.LENGTH, FinishReason.CANCELLED, FinishReason.DEADLINE)) {
                assertThat(reasons[reason.ordinal()]).as(reason.toString()).isGreaterThan(200);
            }
            assertThat(bench.scheduler.preemptions()).isGreaterThan(100);
            assertThat(bench.pool.index().hitTokens()).isGreaterThan(REQUESTS * 2L);
            assertThat(bench.pool.index().evictions()).isGreaterThan(1_000);
            bench.assertNothingHeld();
        }
    }

    private static void check(Bench.Run run) {
        List<Integer> tokens = run.end().tokenIds();
        boolean whole = run.end().reason() == FinishReason.STOP || run.end().reason() == FinishReason.LENGTH;
        if (tokens.isEmpty() && !whole) {
            return;
        }
        List<Integer> expected = Bench.expected(run.request);
        assertThat(tokens).as(run.request.id()).isEqualTo(whole ? expected : expected.subList(0, tokens.size()));
    }

    private static GenerationRequest request(SplittableRandom random, Bench bench, int number) {
        List<Integer> prompt = Bench.join(
                Bench.ids(random.nextInt(5), 16 * random.nextInt(5) + random.nextInt(3)),
                Bench.ids(random.nextInt(50), 1 + random.nextInt(20)));
        long deadlineMs = random.nextInt(4) == 0 ? bench.clock.epochMs + 50 + random.nextInt(800) : Long.MAX_VALUE;
        String salt = random.nextInt(3) == 0 ? "tenant" : "";
        return Bench.request("r" + number, prompt, 1 + random.nextInt(60), random.nextInt(3), deadlineMs, salt);
    }

    /// Bytes in use after collections that free nothing more.
    private static long heap() {
        long used = Long.MAX_VALUE;
        for (int i = 0; i < 5; i++) {
            System.gc();
            used = Math.min(used, Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory());
        }
        return used;
    }
}
