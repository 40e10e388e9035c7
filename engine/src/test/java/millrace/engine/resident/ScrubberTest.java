package millrace.engine.resident;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class ScrubberTest {
    private static final int COUNT = 50;

    /// A world in which a check takes so long.
    private static final class World implements Scrubber.Blocks, Scrubber.Clock {
        private final long checkNanos;
        private final List<Integer> checked = new ArrayList<>();
        private long now = 1_000;
        private long cpu;
        private int passes;
        private boolean idle;

        World(long checkNanos) {
            this.checkNanos = checkNanos;
        }

        @Override
        public int count() {
            return COUNT;
        }

        @Override
        public boolean check(int block) {
            if (idle) {
                return false;
            }
            checked.add(block);
            now += checkNanos;
            cpu += checkNanos;
            return true;
        }

        @Override
        public void passed() {
            passes++;
        }

        @Override
        public long nanos() {
            return now;
        }

        @Override
        public long cpuNanos() {
            return cpu;
        }

        void run(Scrubber scrubber, int steps) {
            for (int i = 0; i < steps; i++) {
                long rest = scrubber.step();
                now += rest;
            }
        }
    }

    @Test
    void spreadsAPassEvenlyWithinTheInterval() {
        var world = new World(30_000);
        try (var scrubber = new Scrubber(world, world, Duration.ofSeconds(300), 0.01)) {
            long last = world.now;
            for (int i = 0; i < 3 * COUNT; i++) {
                world.run(scrubber, 1);
                assertThat(world.now - last).isBetween(
                        TimeUnit.SECONDS.toNanos(270) / COUNT - 100_000, TimeUnit.SECONDS.toNanos(270) / COUNT + 100_000);
                last = world.now;
            }
            assertThat(world.passes).isEqualTo(3);
            assertThat(world.checked.subList(COUNT - 1, COUNT + 2)).containsExactly(COUNT - 1, 0, 1);
        }
    }

    @Test
    void keepsItsShareWhereTheIntervalIsTooShort() {
        var world = new World(1_000_000);
        try (var scrubber = new Scrubber(world, world, Duration.ofMillis(100), 0.02)) {
            long began = world.now;
            world.run(scrubber, 2 * COUNT);
            assertThat((double) world.cpu / (world.now - began)).isBetween(0.0199, 0.0201);
        }
    }

    @Test
    void asksForTheSameBlockAgainWhileNothingCanBeChecked() {
        var world = new World(1_000);
        try (var scrubber = new Scrubber(world, world, Duration.ofSeconds(1), 1)) {
            world.run(scrubber, 7);
            world.idle = true;
            world.run(scrubber, 500);
            world.idle = false;
            world.run(scrubber, 1);
            assertThat(world.checked).endsWith(6, 7);
            assertThat(world.passes).isZero();
        }
    }

    @Test
    void runsOnAThreadOfItsOwnUntilItIsClosed() throws InterruptedException {
        var passes = new CountDownLatch(3);
        var blocks = new Scrubber.Blocks() {
            @Override
            public int count() {
                return 4;
            }

            @Override
            public boolean check(int block) {
                return Thread.currentThread().isDaemon()
                        && Thread.currentThread().getName().equals("millrace-scrub")
                        && Thread.currentThread().getPriority() == Thread.MIN_PRIORITY;
            }

            @Override
            public void passed() {
                passes.countDown();
            }
        };
        try (var scrubber = new Scrubber(blocks, Scrubber.Clock.system(), Duration.ofMillis(8), 1)) {
            scrubber.start();
            assertThat(passes.await(10, TimeUnit.SECONDS)).isTrue();
        }
    }
}
