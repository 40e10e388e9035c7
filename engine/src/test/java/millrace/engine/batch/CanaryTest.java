package millrace.engine.batch;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import millrace.engine.FinishReason;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.Golden;
import millrace.engine.IntegrityConfig;
import millrace.engine.IntegrityEvent;
import millrace.engine.IntegrityEvent.Kind;
import millrace.engine.IntegrityEvent.Result;
import millrace.engine.IntegrityLedger;
import millrace.engine.KvFormat;
import millrace.engine.PreparedPrompt;
import millrace.engine.PromptInput;
import millrace.engine.kv.KvLayout;
import millrace.engine.kv.PageGuard;
import millrace.engine.kv.PagePool;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// Golden prompts beside the traffic of a real loop; wrong logits come and go at the test's command.
@Timeout(60)
class CanaryTest {
    private static final KvLayout LAYOUT = KvLayout.grouped(KvFormat.F32, 1, 1, 16);
    private static final List<Integer> PROMPT = Bench.ids(4, 20);

    private final FakeModel model = new FakeModel(8);
    private final PagePool pool = new PagePool(LAYOUT, 100 * LAYOUT.pageBytes());
    private final IntegrityLedger ledger = new IntegrityLedger();
    private final FakeWatch watch = new FakeWatch();
    private final List<Run> runs = new ArrayList<>();
    private volatile boolean wrong;
    private BatchLoop loop;

    private void open(Duration interval, Golden... goldens) {
        model.recording = false;
        model.shifted = step -> wrong;
        StepClock clock = StepClock.system();
        pool.openGuard(new PageGuard.Settings("m", 0, clock::nanos, clock::epochMs));
        pool.openIndex("m");
        var config = new IntegrityConfig("default", Duration.ZERO, 0.01, Duration.ZERO, interval, 32);
        loop = new BatchLoop(
                model, pool, new Vocabulary(new FakeTokenizer(), Set.of()), clock, new BatchLoop.Limits(4, 16, 8, 2_000),
                new Checks(config, ledger, watch, List.of(goldens)));
    }

    @AfterEach
    void close() {
        loop.close();
        assertThat(pool.freePages()).as("a golden prompt may be under way").isGreaterThanOrEqualTo(pool.pageCount() - 2);
        pool.close();
    }

    @Test
    void theFirstRunIsBeforeTheFirstPromptAndSetsWhatIsExpected() throws Exception {
        wrong = true;
        open(Duration.ofMinutes(1));
        wrong = false;
        GenerationResult result = generate(1, 10).get(20, TimeUnit.SECONDS);
        IntegrityEvent event = ledger.events(0).getFirst();
        assertThat(event.kind()).isEqualTo(Kind.CANARY);
        assertThat(event.result()).isEqualTo(Result.PASSED);
        assertThat(event.detail()).matches("at=load golden=self prompts=1 step=\\d+");
        assertThat(result.transcript().lastStep()).isGreaterThan(Long.parseLong(event.detail().split("step=")[1]));
        assertThat(ledger.state().canaryAgeMs()).isBetween(0L, 20_000L);
        assertThat(loop.load()).isZero();
    }

    @Test
    void aSignedGoldenIsWhatItMustBe() throws Exception {
        open(Duration.ofMinutes(1), golden(Golden.digest(expected(PROMPT, 12))), golden(Golden.digest(expected(PROMPT, 12))));
        assertThat(generate(1, 10).get(20, TimeUnit.SECONDS).reason()).isEqualTo(FinishReason.LENGTH);
        assertThat(ledger.events(0)).extracting(IntegrityEvent::detail).singleElement().asString()
                .startsWith("at=load golden=model prompts=3 ");
    }

    @Test
    void anEngineThatAnswersASignedGoldenOtherwiseRefusesBeforeTheFirstPrompt() throws Exception {
        open(Duration.ofMinutes(1), golden("0".repeat(64)));
        GenerationResult result = generate(1, 10).get(20, TimeUnit.SECONDS);
        assertThat(result.errorCode()).isEqualTo("ENGINE_FAILED");
        assertThat(result.tokenIds()).isEmpty();
        assertThat(loop.failure()).isEqualTo("engine: the golden prompt was answered otherwise than before, also after all "
                + "weights and pages were looked at (differs=tokens); restart, and replace this machine if it returns");
        assertThat(watch.checks).isOne();
        assertThat(ledger.events(0)).extracting(IntegrityEvent::result).containsExactly(Result.REFUSED);
        assertThat(ledger.events(0)).extracting(IntegrityEvent::code).containsExactly("CANARY_FAIL");
        assertThat(ledger.state().admitting()).isFalse();
    }

    @Test
    void wrongNumbersThatPassAreFoundAndWhatCameOfThemIsComputedAgain() throws Exception {
        open(Duration.ofMillis(20));
        watch.onVerify = () -> wrong = false;
        for (int round = 0; round < 5; round++) {
            int faults = (int) ledger.state().canaryFailures();
            for (int i = 0; i < 6; i++) {
                generate(i, 900);
            }
            long before = ledger.step();
            while (ledger.step() < before + 20) {
                Thread.onSpinWait();
            }
            wrong = true;
            while (ledger.state().canaryFailures() == faults) {
                // Traffic goes on all the time.
                if (loop.load() < 4) {
                    generate(runs.size() % 7, 300);
                }
                Thread.sleep(1);
            }
        }
        for (int i = 0; i < 5; i++) {
            generate(10 + i, 40).get(20, TimeUnit.SECONDS);
        }
        int trusted = 0;
        for (Run run : runs) {
            GenerationResult result = run.end.get(20, TimeUnit.SECONDS);
            assertThat(result.reason()).isEqualTo(FinishReason.LENGTH);
            if (ledger.trusts(result)) {
                trusted++;
                assertThat(result.tokenIds()).isEqualTo(expected(run.prompt(), run.maxNewTokens));
            }
        }
        assertThat(trusted).isGreaterThanOrEqualTo(5);
        IntegrityEvent event = ledger.events(0).stream().filter(e -> !e.code().isEmpty()).findFirst().orElseThrow();
        assertThat(event.result()).isEqualTo(Result.REPAIRED);
        assertThat(event.code()).isEqualTo("CANARY_FAIL");
        assertThat(event.detail()).matches("at=again golden=self prompts=1 step=\\d+");
        assertThat(event.suspectFromStep()).isPositive();
        assertThat(loop.failure()).isNull();
        assertThat(ledger.state().admitting()).isTrue();
    }

    @Test
    void twoMismatchesInARowRefuse() throws Exception {
        open(Duration.ofMillis(20));
        assertThat(generate(1, 30).get(20, TimeUnit.SECONDS).reason()).isEqualTo(FinishReason.LENGTH);
        wrong = true;
        while (loop.failure() == null) {
            Thread.sleep(1);
        }
        assertThat(generate(1, 30).get(20, TimeUnit.SECONDS).errorCode()).isEqualTo("ENGINE_FAILED");
        assertThat(ledger.state().canaryFailures()).isOne();
    }

    @Test
    void aRepairOfWeightsIsFollowedByARunBeforeAnythingElse() throws Exception {
        open(Duration.ofMinutes(1));
        generate(1, 30).get(20, TimeUnit.SECONDS);
        watch.damaged = true;
        loop.wake();
        generate(2, 30).get(20, TimeUnit.SECONDS);
        while (ledger.events(0).size() < 2) {
            Thread.sleep(1);
        }
        assertThat(ledger.events(0).getLast().detail()).startsWith("at=repair golden=self");
    }

    @Test
    void nothingOfItStaysInTheCache() throws Exception {
        open(Duration.ofMillis(1), golden(Golden.digest(expected(PROMPT, 12))));
        generate(1, 4).get(20, TimeUnit.SECONDS);
        while (ledger.events(0).size() < 20) {
            Thread.sleep(1);
        }
        assertThat(loop.stats().prefixHitTokens()).isZero();
        assertThat(loop.stats().cachedPages()).isLessThanOrEqualTo(2);
    }

    private record Run(int seed, int maxNewTokens, CompletableFuture<GenerationResult> end) {
        List<Integer> prompt() {
            return List.of(seed % 60, 1, 2);
        }
    }

    private CompletableFuture<GenerationResult> generate(int seed, int maxNewTokens) {
        var run = new Run(seed, maxNewTokens, new CompletableFuture<>());
        var request = GenerationRequest.greedy("p" + seed, new PromptInput.TokenIds(run.prompt()), maxNewTokens);
        int[] ids = run.prompt().stream().mapToInt(Integer::intValue).toArray();
        loop.generate(new PreparedPrompt(request, "", ids), run.end::complete);
        runs.add(run);
        return run.end;
    }

    private static Golden golden(String tokensSha256) {
        return new Golden(PROMPT, 12, "", "", "", tokensSha256);
    }

    /// The greedy completion without stop tokens.
    private static List<Integer> expected(List<Integer> prompt, int maxNewTokens) {
        List<Integer> tokens = new ArrayList<>(prompt);
        for (int step = 0; step < maxNewTokens; step++) {
            float[] logits = FakeModel.logitsAfter(tokens);
            int best = 0;
            for (int i = 1; i < logits.length; i++) {
                best = logits[i] > logits[best] ? i : best;
            }
            tokens.add(best);
        }
        return List.copyOf(tokens.subList(prompt.size(), tokens.size()));
    }
}
