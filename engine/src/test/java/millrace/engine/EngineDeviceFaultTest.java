package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import millrace.engine.IntegrityEvent.Kind;
import millrace.engine.IntegrityEvent.Result;
import millrace.engine.kernel.cuda.StandIn;
import millrace.engine.kv.KvFaults;
import millrace.engine.resident.CopyRegion;
import millrace.engine.resident.Damage;
import millrace.engine.resident.Region;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// Bits of a device's memory flip while an engine serves, its pages and its copies of the weights: all are found, and the
/// answers are those of a run without faults. The device is the stand-in, whose memory is the process's.
@Timeout(300)
class EngineDeviceFaultTest {
    private static final int REQUESTS = 4;

    @TempDir
    Path dir;

    private int pages;

    /// The name of the copy that was damaged, once.
    private String ruined = "";

    @BeforeAll
    static void needsTheStandin() {
        StandIn.assumePresent();
    }

    private EngineConfig config(KvFormat format, String profile) {
        return EngineConfig.of(dir)
                .withBackend("cuda")
                .withCuda(CudaConfig.STANDIN)
                .withMemoryBytes(256 << 20)
                .withKvFormat(format)
                .withThreads(1)
                .withMaxContext(256)
                .withMaxBatch(4)
                .withPrefillChunk(24)
                .withIntegrity(new IntegrityConfig(profile, Duration.ZERO, 1, Duration.ofMillis(50), Duration.ZERO, 4));
    }

    private static List<GenerationRequest> requests() {
        var random = new SplittableRandom(12);
        List<GenerationRequest> requests = new ArrayList<>();
        for (int i = 0; i < REQUESTS; i++) {
            List<Integer> prompt = new ArrayList<>(ids(i % 2, 32));
            prompt.addAll(ids(50 + i, 1 + random.nextInt(12)));
            var sampling = i % 2 == 0 ? Sampling.GREEDY : new Sampling(1f, 0.95f, 50, 0f, 1.1f, i);
            requests.add(new GenerationRequest(
                    "r" + i, new PromptInput.TokenIds(prompt), sampling, 6 + random.nextInt(4), List.of(), Long.MAX_VALUE, 0));
        }
        return requests;
    }

    private static List<Integer> ids(int seed, int count) {
        return new SplittableRandom(seed).ints(count, 0, 2_048).boxed().toList();
    }

    /// @param strike on the engine's thread, between two rows of a step's results
    private static List<GenerationResult> run(Engine engine, Runnable strike) {
        List<CompletableFuture<GenerationResult>> ends = new ArrayList<>();
        for (GenerationRequest request : requests()) {
            var end = new CompletableFuture<GenerationResult>();
            engine.submit(engine.prepare(request), new GenerationListener() {
                @Override
                public void onDelta(String text) {
                    strike.run();
                }

                @Override
                public void onEnd(GenerationResult result) {
                    end.complete(result);
                }
            });
            ends.add(end);
        }
        return ends.stream().map(CompletableFuture::join).toList();
    }

    private static WeightGuard guard(Engine engine) {
        return Objects.requireNonNull(engine.guard(), "weights are watched");
    }

    private void strike(Engine engine, SplittableRandom random) {
        List<Integer> sealed = KvFaults.sealedPages(engine.pool());
        if (!sealed.isEmpty() && pages < 6 && random.nextInt(4) == 0) {
            int page = sealed.get(random.nextInt(sealed.size()));
            pages += KvFaults.inject(KvFaults.Kind.CODE_BIT, engine.pool(), page, random) ? 1 : 0;
        }
        if (ruined.isEmpty() && pages > 0) {
            List<Region> copies = guard(engine).regions().stream().filter(CopyRegion.class::isInstance).toList();
            Region copy = copies.get(random.nextInt(copies.size()));
            ruined = copy.name();
            Damage.flip(copy, new Random(1));
            WeightGuard guard = guard(engine);
            for (int block = 0; block < guard.count() && guard.check(block); block++) {
                assertThat(block).isLessThan(guard.count() - 1);
            }
        }
    }

    @ParameterizedTest
    @CsvSource({"glm4_moe, INT8, default", "glm4_moe_lite, BF16, strict"})
    void answersAreThoseOfARunWithoutFaults(String family, KvFormat format, String profile) throws IOException {
        TinyModel.of(family).withTokenizer().write(dir);
        List<GenerationResult> expected;
        try (Engine sound = Engine.open(config(format, profile))) {
            expected = run(sound, () -> {});
            assertThat(sound.events(0)).filteredOn(event -> !event.code().isEmpty()).isEmpty();
        }
        var random = new SplittableRandom(5);
        try (Engine engine = Engine.open(config(format, profile))) {
            List<GenerationResult> got = run(engine, () -> strike(engine, random));
            for (int i = 0; i < got.size(); i++) {
                GenerationResult right = expected.get(i);
                assertThat(got.get(i).tokenIds()).as("request %d", i).isEqualTo(right.tokenIds());
                assertThat(got.get(i).reason()).isEqualTo(right.reason());
                assertThat(got.get(i).transcript().logitsDigests()).isEqualTo(right.transcript().logitsDigests());
                assertThat(engine.trusts(got.get(i))).isTrue();
            }
            assertThat(pages).isGreaterThan(1);
            assertThat(engine.integrity().kvFaults()).isPositive();
            assertThat(engine.events(0))
                    .filteredOn(event -> event.kind() == Kind.WEIGHT)
                    .singleElement()
                    .satisfies(event -> assertThat(event.result()).isEqualTo(Result.REPAIRED))
                    .satisfies(event -> assertThat(event.detail()).contains(ruined.replace(' ', '_')));
            assertThat(engine.failure()).isNull();
        }
    }
}
