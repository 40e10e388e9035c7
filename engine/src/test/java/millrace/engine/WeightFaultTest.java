package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import millrace.engine.IntegrityEvent.Kind;
import millrace.engine.IntegrityEvent.Result;
import millrace.engine.resident.Damage;
import millrace.engine.resident.MatrixRegion;
import millrace.engine.resident.Region;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/// A weight is damaged while an engine serves: the answers are those of a run without the fault, or nobody trusts them.
@Timeout(120)
class WeightFaultTest {
    private static final int PROMPTS = 6;
    private static final int TOKENS = 40;

    /// Checked by hand only.
    private static final IntegrityConfig BY_HAND = new IntegrityConfig(
            "default", Duration.ZERO, 1, Duration.ofMinutes(1), Duration.ZERO, 0);

    @TempDir
    Path dir;

    @BeforeEach
    void write() throws IOException {
        TinyModel.of("llama").withTokenizer().write(dir);
    }

    private EngineConfig config(String format, IntegrityConfig integrity) {
        return EngineConfig.of(dir)
                .withThreads(2)
                .withMaxBatch(4)
                .withKvFormat(KvFormat.BF16)
                .withKvBytes(4 << 20)
                .withWeightFormat(format)
                .withIntegrity(integrity);
    }

    private static GenerationRequest request(int i) {
        Sampling sampling = new Sampling(i % 2, 1f, 0, 0f, 1f, i);
        return new GenerationRequest(
                "prompt-" + i, new PromptInput.Text("once upon a time there was " + i), sampling, TOKENS, List.of(),
                Long.MAX_VALUE, 0);
    }

    private static List<GenerationResult> run(Engine engine, GenerationListener alongside) {
        List<CompletableFuture<GenerationResult>> ends = new ArrayList<>();
        var submitted = new CountDownLatch(1);
        for (int i = 0; i < PROMPTS; i++) {
            var end = new CompletableFuture<GenerationResult>();
            ends.add(end);
            engine.submit(engine.prepare(request(i)), new GenerationListener() {
                @Override
                public void onDelta(String text) {
                    // The first is not far ahead of the last, however slowly they come.
                    awaitUninterruptibly(submitted);
                    alongside.onDelta(text);
                }

                @Override
                public void onRestart() {
                    alongside.onRestart();
                }

                @Override
                public void onEnd(GenerationResult result) {
                    alongside.onEnd(result);
                    end.complete(result);
                }
            });
        }
        submitted.countDown();
        return ends.stream().map(CompletableFuture::join).toList();
    }

    private static void awaitUninterruptibly(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private static WeightGuard guard(Engine engine) {
        WeightGuard guard = engine.guard();
        assertThat(guard).isNotNull();
        return guard;
    }

    private static boolean scrub(Engine engine) {
        WeightGuard guard = guard(engine);
        for (int block = 0; block < guard.count(); block++) {
            if (!guard.check(block)) {
                return false;
            }
        }
        guard.passed();
        return true;
    }

    private static Region region(Engine engine, String name) {
        return guard(engine).regions().stream()
                .filter(r -> r.name().endsWith(name))
                .findFirst()
                .orElseThrow();
    }

    /// Turns so many signs that every answer changes, and none is given up for its numbers.
    private static void ruin(Region region) {
        for (long bit = 15; bit < Math.min(8 * region.bytes(), 16 * 40_000); bit += 32) {
            Damage.flip(region, bit);
        }
    }

    @ParameterizedTest
    @CsvSource({
        "stored, lm_head.weight", "stored, layers.0.self_attn.q_proj.weight", "stored, norm.weight",
        "packed, layers.1.mlp.down_proj.weight", "int8, layers.0.mlp.up_proj.weight",
        "int4, layers.1.self_attn.v_proj.weight", "stored, rotary frequencies"})
    void answersAreThoseOfARunWithoutTheFault(String format, String name) throws IOException {
        List<GenerationResult> expected;
        try (Engine engine = Engine.open(config(format, BY_HAND))) {
            expected = run(engine, result -> {});
            assertThat(scrub(engine)).isTrue();
            assertThat(engine.card().blockTableSha256()).matches("[0-9a-f]{64}");
            assertThat(engine.events(0)).extracting(IntegrityEvent::kind).doesNotContain(Kind.WEIGHT, Kind.META);
        }
        try (Engine engine = Engine.open(config(format, BY_HAND))) {
            var deltas = new AtomicInteger();
            var restarts = new AtomicInteger();
            long[] goodStep = new long[1];
            List<GenerationResult> got = run(engine, new GenerationListener() {
                @Override
                public void onDelta(String text) {
                    // On the engine's thread, between a step and the next.
                    if (deltas.incrementAndGet() == 30) {
                        assertThat(scrub(engine)).isTrue();
                        goodStep[0] = engine.stats().steps();
                        ruin(region(engine, name));
                    } else if (deltas.get() == 55) {
                        assertThat(scrub(engine)).isFalse();
                        assertThat(engine.integrity().admitting()).isFalse();
                    }
                }

                @Override
                public void onRestart() {
                    restarts.incrementAndGet();
                }

                @Override
                public void onEnd(GenerationResult result) {}
            });
            assertThat(restarts).hasPositiveValue();
            for (int i = 0; i < PROMPTS; i++) {
                assertThat(got.get(i).tokenIds()).as("prompt %d", i).isEqualTo(expected.get(i).tokenIds());
                assertThat(got.get(i).text()).isEqualTo(expected.get(i).text());
                assertThat(engine.trusts(got.get(i))).isTrue();
            }
            IntegrityEvent fault = engine.events(0).stream()
                    .filter(event -> event.kind() == Kind.WEIGHT)
                    .findFirst()
                    .orElseThrow();
            assertThat(fault.result()).isEqualTo(Result.REPAIRED);
            assertThat(fault.suspectFromStep()).isEqualTo(goodStep[0] + 1);
            assertThat(engine.integrity().weightFaults()).isOne();
            assertThat(engine.integrity().admitting()).isTrue();
            assertThat(engine.failure()).isNull();
            assertThat(scrub(engine)).isTrue();
        }
    }

    @Test
    void whatEndedBeforeTheDamageWasFoundIsNotTrusted() {
        try (Engine engine = Engine.open(config("stored", BY_HAND))) {
            List<GenerationResult> sound = run(engine, result -> {});
            assertThat(scrub(engine)).isTrue();
            ruin(region(engine, "lm_head.weight"));
            List<GenerationResult> damaged = run(engine, result -> {});
            assertThat(damaged).allMatch(engine::trusts);
            assertThat(scrub(engine)).isFalse();
            assertThat(damaged).noneMatch(engine::trusts);
            assertThat(sound).as("before the last good check").allMatch(engine::trusts);
            List<GenerationResult> again = run(engine, result -> {});
            assertThat(again).allMatch(engine::trusts);
            assertThat(damaged).as("also after the repair").noneMatch(engine::trusts);
            for (int i = 0; i < PROMPTS; i++) {
                assertThat(damaged.get(i).tokenIds()).isNotEqualTo(sound.get(i).tokenIds());
                assertThat(again.get(i).tokenIds()).isEqualTo(sound.get(i).tokenIds());
            }
        }
    }

    @Test
    void aChangedFileEndsTheEngineWithAMessage() throws IOException {
        try (Engine engine = Engine.open(config("stored", BY_HAND))) {
            Path file = dir.resolve("model.safetensors");
            byte[] bytes = Files.readAllBytes(file);
            bytes[bytes.length - 1] ^= 1;
            Files.write(file, bytes);
            var deltas = new AtomicInteger();
            List<GenerationResult> got = run(engine, new GenerationListener() {
                @Override
                public void onDelta(String text) {
                    if (deltas.incrementAndGet() == 10) {
                        ruin(region(engine, "layers.0.mlp.down_proj.weight"));
                        assertThat(scrub(engine)).isFalse();
                    }
                }

                @Override
                public void onEnd(GenerationResult result) {}
            });
            assertThat(got).allMatch(result -> result.reason() == FinishReason.FAILED);
            assertThat(got).allMatch(result -> "ENGINE_FAILED".equals(result.errorCode()));
            assertThat(engine.failure()).startsWith("integrity: MODEL_FILE_CHANGED: model.safetensors: expected sha256 ");
            assertThat(engine.integrity().admitting()).isFalse();
            assertThat(run(engine, result -> {})).allMatch(result -> result.reason() == FinishReason.FAILED);
        }
    }

    /// The scrubber on its own thread, faults at any time: whoever asks before handing on hands on nothing wrong, but for
    /// what an event names as suspect. With a golden prompt beside it, which may meet the damage first.
    @ParameterizedTest
    @ValueSource(ints = {0, 100})
    void aStreamOfRequestsSurvivesFaultsAtAnyTime(int canaryMillis) throws InterruptedException {
        var integrity = new IntegrityConfig(
                "default", Duration.ofMillis(150), 1, Duration.ofMinutes(1), Duration.ofMillis(canaryMillis), 16);
        int requests = 400;
        int faults = 12;
        Map<Integer, List<Integer>> expected = new HashMap<>();
        try (Engine engine = Engine.open(config("stored", BY_HAND))) {
            List<GenerationResult> results = run(engine, result -> {});
            for (int i = 0; i < PROMPTS; i++) {
                expected.put(i, results.get(i).tokenIds());
            }
        }
        record Ended(int prompt, GenerationResult result) {}
        try (Engine engine = Engine.open(config("stored", integrity))) {
            Random random = new Random(11);
            List<Region> matrices = new ArrayList<>(guard(engine).regions().stream()
                    .filter(MatrixRegion.class::isInstance)
                    .toList());
            var ended = new LinkedBlockingQueue<Ended>();
            List<Ended> handedOn = new ArrayList<>();
            int submitted = 0;
            Set<Integer> at = new HashSet<>();
            while (at.size() < faults) {
                at.add(random.nextInt(requests));
            }
            for (int done = 0; done < requests; ) {
                while (submitted - done < 8 && submitted < requests) {
                    int prompt = submitted++ % PROMPTS;
                    engine.submit(engine.prepare(request(prompt)), result -> ended.add(new Ended(prompt, result)));
                }
                Ended next = ended.poll(60, TimeUnit.SECONDS);
                assertThat(next).isNotNull();
                assertThat(next.result.reason()).isNotEqualTo(FinishReason.FAILED);
                if (!engine.trusts(next.result)) {
                    engine.submit(
                            engine.prepare(request(next.prompt)), result -> ended.add(new Ended(next.prompt, result)));
                    continue;
                }
                handedOn.add(next);
                if (at.contains(done++)) {
                    ruin(matrices.remove(random.nextInt(matrices.size())));
                }
            }
            while (engine.integrity().weightFaults() < faults) {
                Thread.sleep(5);
            }
            List<IntegrityEvent> found =
                    engine.events(0).stream().filter(e -> e.kind() == Kind.WEIGHT).toList();
            assertThat(found).hasSize(faults).allMatch(e -> e.result() == Result.REPAIRED);
            for (Ended one : handedOn) {
                long last = one.result.transcript().lastStep();
                boolean suspect = found.stream().anyMatch(e -> e.suspectFromStep() <= last);
                if (!suspect) {
                    assertThat(one.result.tokenIds()).isEqualTo(expected.get(one.prompt));
                }
            }
            assertThat(engine.integrity().scrubGeneration()).isPositive();
            assertThat(engine.integrity().scrubAgeMs()).isBetween(0L, 5_000L);
            assertThat(run(engine, result -> {})).extracting(GenerationResult::tokenIds)
                    .containsExactlyElementsOf(List.copyOf(new java.util.TreeMap<>(expected).values()));
        }
    }

    /// Nothing is found where nothing is wrong.
    @Test
    void aLongRunGivesNoFalseAlarm() throws InterruptedException {
        var integrity = new IntegrityConfig("default", Duration.ofMillis(20), 1, Duration.ofMinutes(1), Duration.ZERO, 0);
        try (Engine engine = Engine.open(config("packed", integrity))) {
            while (engine.integrity().scrubGeneration() < 100) {
                run(engine, result -> {});
            }
            assertThat(engine.events(0)).isNotEmpty().allMatch(e -> e.result() == Result.PASSED);
            assertThat(engine.integrity().weightFaults()).isZero();
        }
    }

    @Test
    void withoutIntegrityNothingIsWatched() {
        try (Engine engine = Engine.open(config("stored", IntegrityConfig.OFF))) {
            assertThat(engine.guard()).isNull();
            assertThat(engine.card().blockTableSha256()).isEmpty();
            assertThat(engine.integrity().scrubAgeMs()).isEqualTo(-1);
        }
    }
}
