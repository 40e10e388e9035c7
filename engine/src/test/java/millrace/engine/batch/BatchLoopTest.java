package millrace.engine.batch;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import millrace.engine.DeviceException;
import millrace.engine.FinishReason;
import millrace.engine.Generation;
import millrace.engine.GenerationListener;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.IntegrityConfig;
import millrace.engine.IntegrityEvent;
import millrace.engine.IntegrityLedger;
import millrace.engine.KvFormat;
import millrace.engine.PreparedPrompt;
import millrace.engine.PromptInput;
import millrace.engine.kv.KvLayout;
import millrace.engine.kv.PagePool;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(20)
class BatchLoopTest {
    private static final KvLayout LAYOUT = KvLayout.grouped(KvFormat.F32, 1, 1, 16);

    private final FakeModel model = new FakeModel(8);
    private final PagePool pool = new PagePool(LAYOUT, 100 * LAYOUT.pageBytes());
    private final IntegrityLedger ledger = new IntegrityLedger();
    private final FakeWatch watch = new FakeWatch();
    private final BatchLoop loop = new BatchLoop(
            model, pool, new Vocabulary(new FakeTokenizer(), Set.of()), StepClock.system(),
            new BatchLoop.Limits(4, 16, 8, 2_000), new Checks(IntegrityConfig.DEFAULT, ledger, watch, List.of()));

    @Test
    void damagedWeightsAreRepairedBetweenStepsAndWhatIsInDoubtIsComputedAgain() throws Exception {
        List<CompletableFuture<GenerationResult>> ends = new ArrayList<>();
        for (int i = 0; i < 6; i++) {
            var end = new CompletableFuture<GenerationResult>();
            loop.generate(prompt(i, 900), end::complete);
            ends.add(end);
        }
        while (ledger.step() < 20) {
            Thread.onSpinWait();
        }
        var thread = new CompletableFuture<String>();
        IntegrityLedger.Doubt doubt = ledger.doubt(7);
        watch.onRepair = () -> {
            thread.complete(Thread.currentThread().getName() + " " + ledger.step());
            doubt.end();
        };
        watch.damaged = true;
        loop.wake();
        String[] repaired = thread.get(20, TimeUnit.SECONDS).split(" ");
        assertThat(repaired[0]).isEqualTo("millrace-engine");
        for (int i = 0; i < 6; i++) {
            GenerationResult result = ends.get(i).get(20, TimeUnit.SECONDS);
            var undisturbed = new CompletableFuture<GenerationResult>();
            loop.generate(prompt(i, 900), undisturbed::complete);
            assertThat(result.tokenIds()).isEqualTo(undisturbed.get(20, TimeUnit.SECONDS).tokenIds());
            assertThat(result.transcript().lastStep()).isGreaterThan(Long.parseLong(repaired[1]));
            assertThat(ledger.trusts(result)).isTrue();
        }
    }

    @Test
    void idleWeightsAreRepairedToo() throws Exception {
        var repaired = new CountDownLatch(1);
        watch.onRepair = repaired::countDown;
        watch.damaged = true;
        loop.wake();
        assertThat(repaired.await(20, TimeUnit.SECONDS)).isTrue();
    }

    @Test
    void aRefusalEndsEverythingUnderWayAndAllThatComes() throws Exception {
        var end = new CompletableFuture<GenerationResult>();
        loop.generate(prompt(1, 900), end::complete);
        watch.refusal = "weights: damaged twice";
        watch.damaged = true;
        loop.wake();
        GenerationResult result = end.get(20, TimeUnit.SECONDS);
        assertThat(result.errorCode()).isEqualTo("ENGINE_FAILED");
        assertThat(result.errorMessage()).isEqualTo("weights: damaged twice");
        assertThat(loop.failure()).isEqualTo("weights: damaged twice");
    }

    @Test
    void nothingIsStartedWhileSomebodyHoldsIt() throws Exception {
        ledger.hold(this);
        var end = new CompletableFuture<GenerationResult>();
        loop.generate(prompt(1, 5), end::complete);
        Thread.sleep(50);
        assertThat(end).isNotDone();
        ledger.release(this);
        assertThat(end.get(20, TimeUnit.SECONDS).reason()).isEqualTo(FinishReason.LENGTH);
    }

    @AfterEach
    void close() {
        loop.close();
        pool.close();
    }

    @Test
    void answersEveryPromptOnItsOwnThread() {
        List<CompletableFuture<String>> threads = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
            var thread = new CompletableFuture<String>();
            loop.generate(prompt(i, 5), result -> thread.complete(Thread.currentThread().getName() + " " + result.reason()));
            threads.add(thread);
        }
        assertThat(threads).allSatisfy(t -> assertThat(t.get(10, TimeUnit.SECONDS)).isEqualTo("millrace-engine LENGTH"));
        assertThat(loop.load()).isZero();
        assertThat(loop.failure()).isNull();
    }

    @Test
    void cancelEndsARunningGeneration() {
        var end = new CompletableFuture<GenerationResult>();
        var started = new CountDownLatch(1);
        Generation generation = loop.generate(prompt(1, 1000), new GenerationListener() {
            @Override
            public void onDelta(String text) {
                started.countDown();
            }

            @Override
            public void onEnd(GenerationResult result) {
                end.complete(result);
            }
        });
        assertThat(started).satisfies(l -> assertThat(l.await(10, TimeUnit.SECONDS)).isTrue());
        generation.cancel();
        assertThat(end.join().reason()).isIn(FinishReason.CANCELLED, FinishReason.LENGTH);
        generation.cancel();
    }

    @Test
    void aFailedStepEndsEverythingAndRefusesWhatComesLater() {
        model.beforeStep = () -> {
            throw new ArithmeticException("broken kernel");
        };
        GenerationResult first = generate(1);
        assertThat(first.reason()).isEqualTo(FinishReason.FAILED);
        assertThat(first.errorCode()).isEqualTo("ENGINE_FAILED");
        String message = "engine: a step failed with java.lang.ArithmeticException: broken kernel; restart the process, "
                + "and report this if it returns";
        assertThat(first.errorMessage()).isEqualTo(message);
        assertThat(loop.failure()).isEqualTo(message);
        model.beforeStep = () -> {};
        assertThat(generate(2).errorCode()).isEqualTo("ENGINE_FAILED");
        assertThat(loop.load()).isZero();
        assertThat(pool.freePages()).isEqualTo(100);
    }

    @Test
    void aDeviceThatFailsIsAnEventBeforeAnybodyHearsOfTheEnd() {
        model.beforeStep = () -> {
            throw new DeviceException("CUDA_FAILED", "GPU: cuStreamSynchronize: expected success, got an illegal address", 700,
                    "CUDA_ERROR_ILLEGAL_ADDRESS", "decode step of 4", true);
        };
        List<IntegrityEvent> read = new ArrayList<>();
        var end = new CompletableFuture<GenerationResult>();
        loop.generate(prompt(1, 3), result -> {
            read.addAll(ledger.events(0));
            end.complete(result);
        });
        assertThat(end.join().errorCode()).isEqualTo("ENGINE_FAILED");
        assertThat(read).filteredOn(event -> event.kind() == IntegrityEvent.Kind.DEVICE).singleElement().satisfies(event -> {
            assertThat(event.result()).isEqualTo(IntegrityEvent.Result.REFUSED);
            assertThat(event.code()).isEqualTo("CUDA_FAILED");
            assertThat(event.detail())
                    .isEqualTo("result=700 name=CUDA_ERROR_ILLEGAL_ADDRESS kernel=decode_step_of_4 sticky=true");
            assertThat(event.suspectFromStep()).as("nothing is in doubt").isEqualTo(IntegrityEvent.NO_STEP);
        });
        assertThat(loop.failure()).startsWith("engine: a step failed with millrace.engine.DeviceException: GPU: ");
    }

    @Test
    void closeSendsNoEventsAndRefusesNewWork() throws InterruptedException {
        var inStep = new CountDownLatch(1);
        var events = new CountDownLatch(1);
        model.beforeStep = () -> {
            inStep.countDown();
            LockSupport.parkNanos(50_000_000);
        };
        loop.generate(prompt(3, 1_000), result -> events.countDown());
        assertThat(inStep.await(10, TimeUnit.SECONDS)).isTrue();
        loop.close();
        assertThat(events.getCount()).isOne();
        assertThatThrownBy(() -> loop.generate(prompt(4, 1), result -> {}))
                .isInstanceOf(IllegalStateException.class)
                .hasMessage("engine: expected an open engine, got one that was closed");
    }

    private GenerationResult generate(int seed) {
        var end = new CompletableFuture<GenerationResult>();
        loop.generate(prompt(seed, 3), end::complete);
        return end.join();
    }

    private static PreparedPrompt prompt(int seed, int maxNewTokens) {
        int[] ids = {seed % 60, 1, 2};
        var input = new PromptInput.TokenIds(List.of(ids[0], 1, 2));
        return new PreparedPrompt(GenerationRequest.greedy("p" + seed, input, maxNewTokens), "", ids);
    }
}
