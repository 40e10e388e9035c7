package millrace.engine.batch;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import millrace.engine.DraftStats;
import millrace.engine.FinishReason;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.PromptInput;
import millrace.engine.Sampling;
import millrace.engine.ScoreListener;
import millrace.engine.Speculation;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/// Tokens that are drafted ahead: whatever they are, answers have the bits that they have without, and nothing is lost. The model
/// checks what the draft layer is fed.
@Timeout(300)
class SpeculationTest {
    private static final long NEVER = Long.MAX_VALUE;

    private final List<Bench> benches = new ArrayList<>();

    @AfterEach
    void close() {
        benches.forEach(Bench::close);
    }

    /// What a draft layer may be worth.
    enum Drafts implements FakeModel.Drafter {
        RIGHT,
        WRONG,
        /// Right as often as not.
        MIXED,
        /// Not even numbers, now and then.
        BROKEN;

        @Override
        public void fill(int[] tokens, float[] logits, int offset) {
            FakeModel.fillLogits(tokens, logits, offset);
            int which = Math.floorMod(Arrays.hashCode(tokens), 4);
            if (this == WRONG || this != RIGHT && which > 1) {
                float first = logits[offset];
                System.arraycopy(logits, offset + 1, logits, offset, FakeModel.VOCAB - 1);
                logits[offset + FakeModel.VOCAB - 1] = first;
            }
            if (this == BROKEN && which == 3) {
                Arrays.fill(logits, offset, offset + FakeModel.VOCAB, Float.NaN);
            }
        }
    }

    private Bench bench(int maxBatch, int chunk, int pages, Speculation speculation, FakeModel.@Nullable Drafter drafter) {
        Bench bench = new Bench(maxBatch, chunk, pages, true, 2_000, speculation, drafter);
        benches.add(bench);
        return bench;
    }

    private Bench drafting(int maxBatch, int chunk, int pages, int tokens, FakeModel.Drafter drafter) {
        return bench(maxBatch, chunk, pages, new Speculation(Speculation.Mode.MTP, tokens), drafter);
    }

    private Bench plain(int maxBatch, int chunk, int pages) {
        return bench(maxBatch, chunk, pages, Speculation.OFF, null);
    }

    // -------------------------------------------------------------------------------------------------- same answers

    /// 500 prompts for each kind of drafts, in batches of all sizes, with pages that do not last, shared beginnings, scoring
    /// beside them, cancellations, steps whose numbers are spoilt and steps that are taken back.
    @ParameterizedTest
    @EnumSource(Drafts.class)
    void answersAreThoseWithoutDrafts(Drafts drafts) {
        long preemptions = 0;
        long hits = 0;
        long repairs = 0;
        int cancelled = 0;
        long[] accepted = new long[Speculation.MOST_TOKENS];
        for (int round = 0; round < 25; round++) {
            var random = new SplittableRandom(100 * drafts.ordinal() + round);
            String name = drafts + ", round " + round;
            int batch = 1 + random.nextInt(9);
            int chunk = List.of(1, 7, 16, 256).get(random.nextInt(4));
            int pages = 8 + random.nextInt(4);
            List<GenerationRequest> requests = requests(random, 20);
            Bench off = plain(batch, chunk, pages);
            List<Bench.Run> expected = off.submit(requests);
            off.runToTheEnd(20_000);
            Bench on = drafting(batch, chunk, pages, 1 + round % 3, drafts);
            on.model.recording = false;
            boolean faults = round % 5 == 4;
            if (faults) {
                on.model.spoilt = step -> step % 61 == 60;
            }
            List<Bench.Run> runs = drive(on, requests, random, faults);
            for (int i = 0; i < runs.size(); i++) {
                cancelled += check(name + ", " + i, runs.get(i), expected.get(i).end());
            }
            preemptions += on.scheduler.preemptions();
            hits += on.pool.index().hitTokens();
            repairs += on.scheduler.repairs();
            DraftStats stats = on.scheduler.drafts();
            for (int i = 0; i < accepted.length; i++) {
                assertThat(stats.accepted().get(i)).isLessThanOrEqualTo(stats.drafted().get(i));
                accepted[i] += stats.accepted().get(i);
            }
            assertThat(stats.steps()).isPositive();
            on.assertNothingHeld();
        }
        assertThat(preemptions).isGreaterThan(8);
        assertThat(hits).isGreaterThan(1_000);
        assertThat(repairs).isGreaterThan(5);
        assertThat(cancelled).isGreaterThan(5);
        if (drafts != Drafts.WRONG) {
            assertThat(Arrays.stream(accepted).min().orElseThrow()).isGreaterThan(50);
        }
    }

    private static List<Bench.Run> drive(
            Bench bench, List<GenerationRequest> requests, SplittableRandom random, boolean faults) {
        List<Bench.Run> runs = new ArrayList<>();
        for (int step = 0; runs.size() < requests.size() || !bench.scheduler.idle(); step++) {
            assertThat(step).as("steps").isLessThan(20_000);
            while (runs.size() < requests.size() && random.nextInt(3) > 0) {
                runs.add(bench.submit(requests.get(runs.size())));
                if (runs.size() % 6 == 0) {
                    bench.scheduler.submit(scoring(Bench.ids(random.nextInt(3), 1 + random.nextInt(60)), random.nextBoolean()));
                }
            }
            if (!runs.isEmpty() && random.nextInt(60) == 0) {
                runs.get(random.nextInt(runs.size())).sequence.cancel();
            }
            if (faults && random.nextInt(40) == 0) {
                bench.scheduler.distrust(Math.max(1, bench.scheduler.steps() - random.nextInt(4)));
            }
            bench.scheduler.step();
            bench.scheduler.walk();
            bench.clock.advance(1);
        }
        return runs;
    }

    /// Scoring whose logits are looked at; where steps are taken back it may fail.
    private static Sequence scoring(List<Integer> ids, boolean all) {
        var listener = new ScoreListener() {
            @Override
            public void onLogits(int position, float[] logits, int offset) {
                assertThat(Arrays.copyOfRange(logits, offset, offset + FakeModel.VOCAB))
                        .containsExactly(FakeModel.logitsAfter(ids.subList(0, position + 1)));
            }

            @Override
            public void onEnd(FinishReason reason, @Nullable String errorCode, @Nullable String errorMessage) {
                assertThat(errorCode).isIn(null, "ENGINE_DOUBT");
            }
        };
        return new Sequence(
                "score", ids.stream().mapToInt(i -> i).toArray(), 0, 0, NEVER, "", 0,
                new ScoringWork(all, Bench.CHECK, listener, () -> {}));
    }

    /// @return 1 if it was cancelled
    private static int check(String name, Bench.Run run, GenerationResult expected) {
        GenerationResult result = run.end();
        assertThat(run.deltas.toString()).as(name).isEqualTo(result.text());
        if (result.reason() == FinishReason.CANCELLED) {
            assertThat(result.tokenIds()).as(name).isEqualTo(expected.tokenIds().subList(0, result.tokenIds().size()));
            return 1;
        }
        assertThat(result.reason()).as(name).isEqualTo(expected.reason());
        assertThat(result.tokenIds()).as(name).isEqualTo(expected.tokenIds());
        assertThat(result.text()).as(name).isEqualTo(expected.text());
        assertThat(result.logprobs()).as(name).isEqualTo(expected.logprobs());
        assertThat(result.transcript().logitsEvery()).isEqualTo(expected.transcript().logitsEvery());
        assertThat(result.transcript().logitsDigests()).as(name).isEqualTo(expected.transcript().logitsDigests());
        return 0;
    }

    private static List<GenerationRequest> requests(SplittableRandom random, int count) {
        List<GenerationRequest> requests = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            List<Integer> prompt = Bench.join(
                    Bench.ids(random.nextInt(3), 16 * random.nextInt(4) + random.nextInt(3)),
                    Bench.ids(random.nextInt(50), 1 + random.nextInt(24)));
            Sampling sampling = i % 2 == 0
                    ? Sampling.GREEDY
                    : new Sampling(0.8f, 0.9f, random.nextInt(30), 0f, i % 3 == 0 ? 1.2f : 1f, i);
            var request = new GenerationRequest(
                    "r" + i, new PromptInput.TokenIds(prompt), sampling, 1 + random.nextInt(54),
                    random.nextInt(4) == 0 ? List.of("ab", "q") : List.of(), NEVER, random.nextInt(3),
                    random.nextInt(4) == 0 ? "tenant" : "");
            requests.add(i % 5 == 0 ? request.withLogprobs(3) : request);
        }
        return requests;
    }

    // -------------------------------------------------------------------------------------------------- what they are worth

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3})
    void rightDraftsGiveSeveralTokensAStep(int tokens) {
        Bench bench = drafting(1, 64, 20, tokens, Drafts.RIGHT);
        GenerationRequest request = lasting("r", 7, 90);
        GenerationResult result = bench.complete(request).end();
        assertThat(result.tokenIds()).hasSize(90).isEqualTo(Bench.expected(request));
        // One step for the prompt gives a token, and every other one as many as are drafted and one more. Behind the end of the
        // last page of a step nothing is drafted further.
        int fewest = 1 + Math.ceilDiv(89, 1 + tokens);
        assertThat(bench.model.stepCount).isBetween(fewest, fewest + (tokens == 1 ? 0 : 6));
        DraftStats stats = bench.scheduler.drafts();
        // The last token may be alone.
        assertThat(stats.steps()).isBetween(bench.model.stepCount - 2L, bench.model.stepCount - 1L);
        assertThat(stats.accepted()).isEqualTo(stats.drafted());
        assertThat(stats.drafted().stream().mapToLong(i -> i).sum()).isEqualTo(90 - bench.model.stepCount);
        assertThat(result.transcript().lastStep()).isEqualTo(bench.model.stepCount);
    }

    /// Sampled prompts draft with the random numbers of the places that the tokens will have.
    @Test
    void rightDraftsOfSampledPromptsAreTheTokensThatAreSampled() {
        Bench bench = drafting(1, 64, 20, 1, Drafts.RIGHT);
        var request = new GenerationRequest(
                "r", new PromptInput.TokenIds(Bench.ids(3, 20)), new Sampling(1.3f, 0.95f, 0, 0.01f, 1.3f, 99), 60, List.of(),
                NEVER, 0);
        int tokens = bench.complete(request).end().tokenIds().size();
        assertThat(tokens).isGreaterThan(10);
        assertThat(bench.scheduler.drafts().accepted()).isEqualTo(bench.scheduler.drafts().drafted());
        assertThat(bench.model.stepCount).isEqualTo(1 + Math.ceilDiv(tokens - 1, 2));
    }

    @Test
    void wrongDraftsCostRowsAndNoSteps() {
        Bench bench = drafting(1, 64, 20, 3, Drafts.WRONG);
        GenerationRequest request = lasting("r", 7, 40);
        assertThat(bench.complete(request).end().tokenIds()).isEqualTo(Bench.expected(request));
        assertThat(bench.model.stepCount).isEqualTo(40);
        assertThat(bench.scheduler.drafts().accepted()).containsOnly(0L);
        // The last token is not behind a draft, and no draft is behind it.
        assertThat(bench.scheduler.drafts().drafted().getFirst()).isEqualTo(38);
    }

    /// Of the tokens that the draft layer computes for a sequence, those that are confirmed are computed once.
    @Test
    void theDraftLayerConsumesEveryTokenOnce() {
        Bench bench = drafting(2, 5, 20, 1, Drafts.MIXED);
        bench.complete(lasting("r", 7, 40));
        assertThat(bench.model.draftRows).isEqualTo(20 + 39);
    }

    /// A request without an end token in what it gives.
    private static GenerationRequest lasting(String id, int seed, int tokens) {
        for (int i = 0; ; i++) {
            GenerationRequest request = Bench.greedy(id, Bench.ids(1_000 * seed + i, 20), tokens);
            if (Bench.expected(request).size() == tokens && !Bench.expected(request).contains(FakeTokenizer.END)) {
                return request;
            }
        }
    }

    // -------------------------------------------------------------------------------------------------- pages

    /// The draft layer's part of a page needs one token more than the others': still the next turn finds all full pages.
    @ParameterizedTest
    @ValueSource(ints = {1, 5, 25})
    void theNextTurnHitsAllFullPagesOfTheLast(int tokens) {
        Bench bench = drafting(2, 100, 40, 2, Drafts.MIXED);
        List<Integer> conversation = Bench.ids(3, 15);
        int computed = 0;
        for (int turn = 0; turn < 8; turn++) {
            GenerationRequest request = Bench.greedy("turn " + turn, conversation, tokens);
            Bench.Run run = bench.complete(request);
            assertThat(run.end().tokenIds()).isEqualTo(Bench.expected(request));
            assertThat(run.cached()).isEqualTo(computed / 16 * 16);
            computed = run.conversation().size() - 1;
            conversation = Bench.join(run.conversation(), Bench.ids(turn, 7));
        }
        bench.assertNothingHeld();
    }

    /// Prompts that part with the first token behind a page do not share it.
    @Test
    void aPageIsNotSharedWhereTheNextTokenIsAnother() {
        Bench bench = drafting(2, 100, 40, 1, Drafts.MIXED);
        List<Integer> common = Bench.ids(3, 32);
        bench.complete(Bench.greedy("a", Bench.join(common, List.of(1, 2, 3)), 2));
        assertThat(bench.complete(Bench.greedy("b", Bench.join(common, List.of(9, 2, 3)), 2)).cached()).isEqualTo(16);
        assertThat(bench.complete(Bench.greedy("c", Bench.join(common, List.of(1, 9, 3)), 2)).cached()).isEqualTo(32);
    }

    /// As many pages as the tokens need, to the last: whoever drafts is content with what it has.
    @Test
    void nobodyGivesWayToDrafts() {
        for (int round = 0; round < 40; round++) {
            var random = new SplittableRandom(round);
            int sequences = 2 + random.nextInt(5);
            List<GenerationRequest> requests = new ArrayList<>();
            int pages = 0;
            for (int i = 0; i < sequences; i++) {
                int tokens = 20 + random.nextInt(40);
                int prompt = 1 + random.nextInt(40);
                requests.add(Bench.greedy("r" + i, Bench.ids(round * 10 + i, prompt), tokens));
                pages += Math.ceilDiv(prompt + tokens - 1, 16);
            }
            Bench bench = drafting(sequences, 256, pages, 3, Drafts.MIXED);
            List<Bench.Run> runs = bench.submit(requests);
            bench.runToTheEnd(1_000);
            runs.forEach(run -> assertThat(run.end().tokenIds()).isEqualTo(Bench.expected(run.request)));
            assertThat(bench.scheduler.preemptions()).as("round %d", round).isZero();
            bench.assertNothingHeld();
        }
    }

    /// A page that was taken for drafts is given back before anybody is preempted.
    @Test
    void pagesThatAreTakenForDraftsAreGivenBack() {
        Bench bench = drafting(2, 256, 6, 3, Drafts.WRONG);
        // At 16 tokens the drafts of the first have a page of their own, which it does not need for long.
        Bench.Run first = bench.submit(Bench.greedy("first", Bench.ids(11, 12), 4));
        Bench.Run second = bench.submit(Bench.greedy("second", Bench.ids(12, 30), 50));
        bench.runToTheEnd(200);
        assertThat(first.end().tokenIds()).isEqualTo(Bench.expected(first.request));
        assertThat(second.end().tokenIds()).isEqualTo(Bench.expected(second.request));
        assertThat(bench.scheduler.preemptions()).isZero();
    }

    // -------------------------------------------------------------------------------------------------- while it pays

    /// A clock by which drafts cost more than they give, or less.
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void autoDraftsWhileItPays(boolean pays) {
        Bench bench = bench(4, 64, 60, new Speculation(Speculation.Mode.AUTO, 2), pays ? Drafts.RIGHT : Drafts.WRONG);
        bench.model.beforeStep = () -> bench.clock.nanos += 1_000_000;
        var paid = new FakeModel.Drafter() {
            @Override
            public void fill(int[] tokens, float[] logits, int offset) {
                bench.clock.nanos += 50_000;
                (pays ? Drafts.RIGHT : Drafts.WRONG).fill(tokens, logits, offset);
            }
        };
        bench.model.drafter = paid;
        int given = 0;
        for (int i = 0; i < 30; i++) {
            Bench.Run run = bench.complete(lasting("r" + i, i, 60));
            assertThat(run.end().tokenIds()).isEqualTo(Bench.expected(run.request));
            given += 60;
        }
        DraftStats stats = bench.scheduler.drafts();
        double perStep = (double) given / bench.scheduler.steps();
        if (pays) {
            assertThat(perStep).isGreaterThan(2.5);
        } else {
            assertThat(perStep).isLessThan(1.1);
            assertThat((double) stats.steps() / bench.scheduler.steps()).isLessThan(0.1);
        }
    }

    /// What a draft layer costs is also what feeding it costs: where drafts do not pay it is left alone, but for a look now and
    /// then, which finds that they pay again.
    @ParameterizedTest
    @ValueSource(ints = {1, 4, 7})
    void autoFeedsNothingWhereDraftsDoNotPay(int sequences) {
        Bench bench = bench(sequences, 64, 80, new Speculation(Speculation.Mode.AUTO, 2), Drafts.WRONG);
        bench.model.recording = false;
        bench.model.beforeStep = () -> bench.clock.nanos += 1_000_000;
        bench.model.beforeDraft = () -> bench.clock.nanos += 150_000;
        complete(bench, sequences, 0, 10);
        long rows = bench.model.rowCount;
        long drafted = bench.model.draftRows;
        complete(bench, sequences, 10, 210);
        assertThat((double) (bench.model.draftRows - drafted) / (bench.model.rowCount - rows)).isLessThan(0.1);
        assertThat(bench.model.draftRows).as("looks at drafts now and then").isGreaterThan(drafted);

        bench.model.drafter = Drafts.RIGHT;
        complete(bench, sequences, 210, 310);
        long steps = bench.scheduler.steps();
        complete(bench, sequences, 310, 320);
        assertThat(10.0 * 60 / (bench.scheduler.steps() - steps)).isGreaterThan(2);
        bench.assertNothingHeld();
    }

    /// Who is fed and who is not share steps, pages and beginnings, and change places as they are preempted; 1,200 prompts while
    /// what drafts cost goes up and down.
    @Test
    void fedAndUnfedSequencesRunTogether() {
        var random = new SplittableRandom(5);
        List<GenerationRequest> requests = requests(random, 1_200);
        Bench off = plain(6, 64, 12);
        List<Bench.Run> expected = off.submit(requests);
        off.runToTheEnd(40_000);
        Bench on = bench(6, 64, 12, new Speculation(Speculation.Mode.AUTO, 2), Drafts.MIXED);
        on.model.recording = false;
        on.model.beforeStep = () -> on.clock.nanos += 1_000_000;
        on.model.beforeDraft = () -> on.clock.nanos += on.scheduler.steps() / 1_500 % 3 == 0 ? 100_000 : 900_000;
        List<Bench.Run> runs = new ArrayList<>();
        while (runs.size() < requests.size() || !on.scheduler.idle()) {
            // Now and then a step without a prompt beside, which alone tells what drafts cost.
            if (runs.size() < requests.size() && random.nextInt(5) == 0) {
                runs.add(on.submit(requests.get(runs.size())));
            }
            if (random.nextInt(60) == 0 && !runs.isEmpty()) {
                runs.get(runs.size() - 1).sequence.cancel();
            }
            on.scheduler.step();
            on.scheduler.walk();
        }
        int cancelled = 0;
        for (int i = 0; i < runs.size(); i++) {
            cancelled += check("request " + i, runs.get(i), expected.get(i).end());
        }
        assertThat(cancelled).isGreaterThan(10);
        assertThat(on.scheduler.preemptions()).isGreaterThan(20);
        assertThat(on.model.unfedSteps).isBetween(500, on.model.stepCount - 500);
        assertThat(on.model.partlyFedSteps).isGreaterThan(100);
        assertThat(on.scheduler.drafts().accepted().getFirst()).isGreaterThan(100);
        on.assertNothingHeld();
    }

    /// So many together, round after round; their answers are the right ones.
    private static void complete(Bench bench, int sequences, int from, int to) {
        for (int round = from; round < to; round++) {
            List<Bench.Run> runs = new ArrayList<>();
            for (int i = 0; i < sequences; i++) {
                runs.add(bench.submit(lasting("r", 7 * round + i, 60)));
            }
            bench.runToTheEnd(1_000);
            runs.forEach(run -> assertThat(run.end().tokenIds()).isEqualTo(Bench.expected(run.request)));
        }
    }

    @Test
    void refusesModelsAndPagesWithoutADraftLayer() {
        var speculation = new Speculation(Speculation.Mode.MTP, 1);
        assertThatThrownBy(() -> new Bench(1, 8, 8, true, 0, speculation, null))
                .hasMessage("drafts: expected a model that can draft and pages with a draft layer, got a model that cannot and"
                        + " pages without");
        assertThatThrownBy(() -> new BatchLoop.Limits(4, 8, 7, 0, speculation))
                .hasMessage("scheduler: expected maxBatch and prefillChunk of at least 1 and 8 rows with logits, got 4, 8 and 7"
                        + " rows");
    }
}
