package millrace.engine.batch;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import millrace.engine.FinishReason;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.IntegrityConfig;
import millrace.engine.IntegrityEvent;
import millrace.engine.IntegrityLedger;
import millrace.engine.KvFormat;
import millrace.engine.PromptInput;
import millrace.engine.Sampling;
import millrace.engine.Speculation;
import millrace.engine.kv.KvFaults;
import millrace.engine.kv.KvLayout;
import millrace.engine.kv.PageGuard;
import millrace.engine.kv.PagePool;
import millrace.engine.sampling.Sampler;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/// Requests that share prefixes, are preempted and cancelled, on a model that reads its pages, with damage done between
/// steps: every completion is the one of a run without faults, bit for bit, or an honest failure.
@Timeout(300)
class KvFaultTest {
    private static final KvLayout LAYOUT = KvLayout.grouped(KvFormat.F32, 1, 1, 16);
    private static final int RUNS = Integer.getInteger("millrace.faults.runs", 40);
    private static final int DIFFERENT = 24;
    private static final int PAGES = 16;
    private static final long DAY = 24L * 3_600_000;
    private static final Sampler SAMPLER = new Sampler(PageModel.VOCAB);
    private static final Vocabulary VOCABULARY = new Vocabulary(new FakeTokenizer(), Set.of(FakeTokenizer.END));
    private static final LogitsCheck CHECK = new LogitsCheck(PageModel.VOCAB, 100);
    private static final Map<GenerationRequest, GenerationResult> ALONE = alone();

    /// A pool, its scheduler, and everything that is told.
    private static final class House implements AutoCloseable {
        final Bench.Clock clock = new Bench.Clock();
        final IntegrityLedger ledger = new IntegrityLedger(() -> clock.epochMs);
        final PagePool pool;
        final PageModel model;
        final List<Sequence> sequences = new ArrayList<>();
        final Map<Sequence, GenerationResult> results = new HashMap<>();
        final Scheduler scheduler;

        House(String profile) {
            this(profile, Speculation.OFF);
        }

        House(String profile, Speculation speculation) {
            boolean drafts = speculation.mode() != Speculation.Mode.OFF;
            KvLayout layout = drafts ? LAYOUT.withDraftLayer() : LAYOUT;
            pool = new PagePool(layout, PAGES * layout.pageBytes());
            model = new PageModel(layout.pageBytes(), 16, drafts);
            pool.openGuard(new PageGuard.Settings(
                    "page model", 5_000_000L, clock::nanos, clock::epochMs));
            pool.openIndex("page model");
            var config = new IntegrityConfig(
                    profile, Duration.ZERO, 0.01, Duration.ZERO, Duration.ZERO, 4);
            scheduler = new Scheduler(
                    model, pool, clock, new BatchLoop.Limits(4, 24, drafts ? 16 : 8, 200, speculation),
                    new Checks(config, ledger, WeightWatch.NONE, List.of()));
        }

        void submit(GenerationRequest request) {
            Sequence[] made = new Sequence[1];
            var work = new GenerationWork(
                    request, SAMPLER, CHECK, 4, VOCABULARY, result -> results.put(made[0], result), clock, () -> {});
            int[] ids = ((PromptInput.TokenIds) request.input()).ids().stream().mapToInt(i -> i).toArray();
            made[0] = new Sequence(
                    request.id(), ids, request.maxNewTokens(), request.priority(), Long.MAX_VALUE, request.cacheSalt(),
                    clock.nanos(), work);
            sequences.add(made[0]);
            scheduler.submit(made[0]);
        }

        void stepUntilAllDecode() {
            do {
                scheduler.step();
            } while (!sequences.stream().allMatch(Sequence::decoding));
        }

        @Override
        public void close() {
            pool.close();
        }
    }

    private static List<GenerationRequest> requests() {
        var random = new SplittableRandom(77);
        List<GenerationRequest> requests = new ArrayList<>();
        for (int i = 0; i < DIFFERENT; i++) {
            List<Integer> prompt = Bench.join(
                    Bench.ids(random.nextInt(3), 16 * random.nextInt(4) + random.nextInt(3)),
                    Bench.ids(100 + i, 1 + random.nextInt(20)));
            var sampling = i % 2 == 0 ? Sampling.GREEDY : new Sampling(1f, 0.95f, 20, 0f, 1.1f, i);
            requests.add(new GenerationRequest(
                    "r" + i, new PromptInput.TokenIds(prompt), sampling, 10 + random.nextInt(60), List.of(), Long.MAX_VALUE,
                    random.nextInt(3), i % 5 == 0 ? "tenant" : ""));
        }
        return requests;
    }

    private static Map<GenerationRequest, GenerationResult> alone() {
        Map<GenerationRequest, GenerationResult> results = new HashMap<>();
        requests().forEach(request -> results.put(request, alone(request)));
        return results;
    }

    private static GenerationResult alone(GenerationRequest request) {
        try (House house = new House("off")) {
            house.submit(request);
            while (!house.scheduler.idle()) {
                house.scheduler.step();
            }
            return house.results.values().iterator().next();
        }
    }

    /// 40 runs of 60 requests with a fault every few steps; `-Dmillrace.faults.runs=N` takes N runs.
    @ParameterizedTest
    @EnumSource(value = KvFaults.Kind.class, mode = EnumSource.Mode.EXCLUDE, names = "INDEX_BIT") // there are no index keys
    void completionsAreThoseOfARunWithoutFaults(KvFaults.Kind kind) {
        completionsAreThoseOfARunWithoutFaults(kind, Speculation.OFF);
    }

    /// The same where tokens are drafted; what is damaged may be the draft layer's.
    @ParameterizedTest
    @EnumSource(value = KvFaults.Kind.class, mode = EnumSource.Mode.EXCLUDE, names = "INDEX_BIT") // there are no index keys
    void completionsWithDraftsAreThoseOfARunWithoutFaults(KvFaults.Kind kind) {
        completionsAreThoseOfARunWithoutFaults(kind, new Speculation(Speculation.Mode.MTP, 2));
    }

    private static void completionsAreThoseOfARunWithoutFaults(KvFaults.Kind kind, Speculation speculation) {
        var random = new SplittableRandom(kind.ordinal());
        int injected = 0;
        long found = 0;
        long recomputed = 0;
        int honest = 0;
        for (int run = 0; run < RUNS; run++) {
            try (House house = new House(run % 4 == 0 ? "strict" : "default", speculation)) {
                injected += drive(house, random, 60, () -> {
                    List<Integer> pages = kind == KvFaults.Kind.EPOCH_BIT
                            ? KvFaults.heldPages(house.pool)
                            : KvFaults.sealedPages(house.pool);
                    return !pages.isEmpty()
                            && KvFaults.inject(kind, house.pool, pages.get(random.nextInt(pages.size())), random);
                });
                found += house.ledger.state().kvFaults();
                honest += check(house, kind + " in run " + run);
                recomputed += house.results.values().stream().filter(r -> r.transcript().kvMismatches() > 0).count();
            }
        }
        assertThat(injected).isGreaterThan(10 * RUNS);
        assertThat(found).as("found of " + injected).isGreaterThan(injected / 3);
        assertThat(honest).as("failures").isLessThan(2 * RUNS);
        assertThat(recomputed).as("sequences computed again").isGreaterThan(5 * RUNS / 4);
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2})
    void tablesThatAreDamagedNeverReachTheModel(int what) {
        var random = new SplittableRandom(what);
        for (int run = 0; run < 30; run++) {
            try (House house = new House("default")) {
                int injected = drive(house, random, 60, () -> {
                    List<Sequence> holders = house.sequences.stream()
                            .filter(sequence -> sequence.pages != null && sequence.pages.pageCount() > 0).toList();
                    if (holders.isEmpty()) {
                        return false;
                    }
                    var pages = holders.get(random.nextInt(holders.size())).pages;
                    KvFaults.damageTable(pages, random.nextInt(pages.pageCount()), what, random);
                    return true;
                });
                assertThat(injected).isGreaterThan(3);
                assertThat(house.ledger.state().kvFaults()).isEqualTo(injected);
                assertThat(house.ledger.events(0)).extracting(IntegrityEvent::code).containsOnly("KV_FOREIGN");
                check(house, "run " + run);
                assertThat(house.pool.freePages()).isEqualTo(PAGES);
            }
        }
    }

    /// What the model finds where it reads, the tables of the process being sound.
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3})
    void whoseTableIsDamagedOnADeviceIsComputedAgain(int seed) {
        var random = new SplittableRandom(seed);
        for (int run = 0; run < 20; run++) {
            try (House house = new House("default")) {
                int[] found = {0};
                house.model.foreign = plan -> {
                    if (plan.segmentCount() == 0 || random.nextInt(12) > 0) {
                        return -1;
                    }
                    found[0]++;
                    return random.nextInt(plan.segmentCount());
                };
                drive(house, random, 60, () -> false);
                assertThat(found[0]).isPositive();
                assertThat(house.ledger.state().kvFaults()).isEqualTo(found[0]);
                assertThat(house.ledger.events(0))
                        .allSatisfy(event -> assertThat(event.code()).isEqualTo("KV_FOREIGN"))
                        .allSatisfy(event -> assertThat(event.detail()).startsWith("at=device step="));
                check(house, "run " + run);
                assertThat(house.pool.freePages()).isEqualTo(PAGES);
            }
        }
    }

    /// The bug: a request is cancelled, its pages are freed, and its retry goes on with the table that it had.
    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3})
    void pagesThatAreFreedTooEarlyAreNotRead(int seed) {
        var random = new SplittableRandom(seed);
        for (int run = 0; run < 20; run++) {
            try (House house = new House("default")) {
                drive(house, random, 60, () -> {
                    List<Integer> pages = KvFaults.heldPages(house.pool);
                    if (pages.isEmpty()) {
                        return false;
                    }
                    KvFaults.freeTooEarly(house.pool, pages.get(random.nextInt(pages.size())));
                    return true;
                });
                check(house, "run " + run);
            }
        }
    }

    /// Logits of one are spoilt for the second time, so that everything is looked at while a step is handed out, and a page is
    /// found damaged that another of that step has read.
    @Test
    void whoseDamageIsFoundWhileAStepIsHandedOutIsComputedAgain() {
        var spoilt = new GenerationRequest(
                "spoilt", new PromptInput.TokenIds(Bench.ids(201, 20)), Sampling.GREEDY, 40, List.of(), Long.MAX_VALUE, 0);
        var damaged = new GenerationRequest(
                "damaged", new PromptInput.TokenIds(Bench.ids(202, 40)), Sampling.GREEDY, 40, List.of(), Long.MAX_VALUE, 0);
        try (House house = new House("default")) {
            house.submit(spoilt);
            house.submit(damaged);
            house.stepUntilAllDecode();
            house.model.spoilt = true;
            house.scheduler.step();
            house.stepUntilAllDecode();
            int page = house.sequences.getLast().pages.page(0);
            KvFaults.inject(KvFaults.Kind.CODE_BIT, house.pool, page, new SplittableRandom(1));
            house.model.spoilt = true;
            while (!house.scheduler.idle()) {
                house.scheduler.step();
            }
            assertThat(house.ledger.events(0)).extracting(IntegrityEvent::code)
                    .containsExactly("ENGINE_NUMERIC", "ENGINE_NUMERIC", "KV_CORRUPT");
            for (Sequence sequence : house.sequences) {
                GenerationRequest request = sequence.id.equals("spoilt") ? spoilt : damaged;
                assertThat(house.results.get(sequence).tokenIds()).as(sequence.id).isEqualTo(alone(request).tokenIds());
            }
            assertThat(house.pool.freePages()).isEqualTo(PAGES);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3})
    void damageAndSpoiltNumbersTogetherChangeNoAnswer(int seed) {
        var random = new SplittableRandom(seed);
        for (int run = 0; run < 20; run++) {
            try (House house = new House(run % 4 == 0 ? "strict" : "default")) {
                drive(house, random, 60, () -> {
                    house.model.spoilt = true;
                    List<Integer> pages = KvFaults.sealedPages(house.pool);
                    return !pages.isEmpty()
                            && KvFaults.inject(
                                    KvFaults.Kind.CODE_BIT, house.pool, pages.get(random.nextInt(pages.size())), random);
                });
                assertThat(house.ledger.state().computeFaults()).isPositive();
                check(house, "run " + run);
                assertThat(house.pool.freePages()).isEqualTo(PAGES);
            }
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"default", "strict"})
    void withoutFaultsNothingIsReported(String profile) {
        var random = new SplittableRandom(3);
        try (House house = new House(profile)) {
            drive(house, random, 2_000, () -> false);
            assertThat(house.ledger.events(0)).isEmpty();
            assertThat(check(house, profile)).isZero();
            assertThat(house.scheduler.preemptions()).isPositive();
            assertThat(house.results.values().stream().mapToInt(r -> r.transcript().kvPagesVerified()).sum()).isPositive();
            assertThat(house.pool.freePages()).isEqualTo(PAGES);
        }
    }

    private interface Fault {
        boolean strike();
    }

    /// @return faults that struck
    private static int drive(House house, SplittableRandom random, int count, Fault fault) {
        List<GenerationRequest> requests = requests();
        int submitted = 0;
        int injected = 0;
        long steps = 0;
        while (submitted < count || !house.scheduler.idle()) {
            while (submitted < count && submitted - house.results.size() < 7) {
                house.submit(requests.get(random.nextInt(DIFFERENT)));
                submitted++;
            }
            if (random.nextInt(40) == 0) {
                house.sequences.get(random.nextInt(house.sequences.size())).cancel();
            }
            house.scheduler.step();
            house.scheduler.walk();
            house.clock.advance(1 + random.nextInt(3));
            if (random.nextInt(30) == 0 && fault.strike()) {
                injected++;
                // Slots that are damaged again much later are not retired.
                house.clock.epochMs += DAY;
            }
            assertThat(steps++).as("steps").isLessThan(100_000);
        }
        return injected;
    }

    /// @return honest failures
    private static int check(House house, String name) {
        int failures = 0;
        for (Sequence sequence : house.sequences) {
            GenerationResult result = house.results.get(sequence);
            assertThat(result).as(name).isNotNull();
            GenerationResult right = ALONE.entrySet().stream()
                    .filter(entry -> entry.getKey().id().equals(sequence.id)).findFirst().orElseThrow().getValue();
            switch (result.reason()) {
                case FAILED -> {
                    assertThat(result.errorCode()).isIn("KV_CORRUPT", "KV_RETIRED", "ENGINE_NUMERIC");
                    failures++;
                }
                case CANCELLED -> assertThat(result.tokenIds()).as(name)
                        .isEqualTo(right.tokenIds().subList(0, result.tokenIds().size()));
                default -> {
                    assertThat(result.tokenIds()).as(name + ", " + sequence.id).isEqualTo(right.tokenIds());
                    assertThat(result.text()).as(name).isEqualTo(right.text());
                    assertThat(result.transcript().logitsDigests()).as(name).isEqualTo(right.transcript().logitsDigests());
                    assertThat(result.reason()).isIn(FinishReason.STOP, FinishReason.LENGTH);
                }
            }
        }
        return failures;
    }
}
