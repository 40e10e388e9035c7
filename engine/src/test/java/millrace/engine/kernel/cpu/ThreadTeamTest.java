package millrace.engine.kernel.cpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.lang.management.ManagementFactory;
import java.util.Set;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(30)
final class ThreadTeamTest {
    @Test
    void everyUnitShouldRunOnce() {
        try (var team = new ThreadTeam(4)) {
            for (int round = 0; round < 2_000; round++) {
                int units = round % 37;
                var runs = new AtomicIntegerArray(Math.max(1, units));
                team.run((unit, thread) -> runs.incrementAndGet(unit), units);
                assertThat(IntStream.range(0, units).map(runs::get)).as("round %d", round).allMatch(n -> n == 1);
            }
        }
    }

    @Test
    void whatUnitsWroteShouldBeSeenByTheCaller() {
        try (var team = new ThreadTeam(3)) {
            int[] values = new int[64];
            for (int round = 1; round <= 3_000; round++) {
                int r = round;
                team.run((unit, thread) -> values[unit] = r, values.length);
                assertThat(values).containsOnly(round);
            }
        }
    }

    @Test
    void failureOfAUnitShouldReachTheCallerAndLeaveTheTeamUsable() {
        try (var team = new ThreadTeam(2)) {
            for (int failing = 0; failing < 8; failing++) {
                int f = failing;
                assertThatThrownBy(() -> team.run(
                                (unit, thread) -> {
                                    if (unit == f) {
                                        throw new IllegalStateException("unit " + unit);
                                    }
                                },
                                8))
                        .isInstanceOf(IllegalStateException.class)
                        .hasMessage("unit " + f);
            }
            var runs = new AtomicIntegerArray(5);
            team.run((unit, thread) -> runs.incrementAndGet(unit), 5);
            assertThat(runs.toString()).isEqualTo("[1, 1, 1, 1, 1]");
        }
    }

    @Test
    void idleWorkersShouldUseNoTime() throws InterruptedException {
        Set<Thread> others = threads();
        try (var team = new ThreadTeam(2)) {
            team.run((unit, thread) -> {}, 8);
            Thread worker = started(others).iterator().next();
            Thread.sleep(50);
            long before = ManagementFactory.getThreadMXBean().getThreadCpuTime(worker.threadId());
            Thread.sleep(200);
            long used = ManagementFactory.getThreadMXBean().getThreadCpuTime(worker.threadId()) - before;
            assertThat(used).as("nanoseconds in 200 ms").isLessThan(20_000_000);
        }
    }

    @Test
    void closeShouldEndTheWorkers() {
        Set<Thread> others = threads();
        var team = new ThreadTeam(3);
        team.run((unit, thread) -> {}, 8);
        Set<Thread> workers = started(others);
        assertThat(workers).hasSize(2);
        team.close();
        assertThat(workers).noneMatch(Thread::isAlive);
    }

    private static Set<Thread> threads() {
        return Thread.getAllStackTraces().keySet();
    }

    private static Set<Thread> started(Set<Thread> before) {
        return threads().stream()
                .filter(t -> t.getName().startsWith("millrace-kernel-") && !before.contains(t))
                .collect(Collectors.toSet());
    }
}
