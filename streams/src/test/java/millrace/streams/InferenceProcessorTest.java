package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import millrace.integrity.NoteSigner;
import millrace.schemas.Prompt;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.api.MockProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// What happens to pending prompts over restarts, takeovers and outages: the processor alone, on stores that outlive it.
class InferenceProcessorTest {
    @TempDir
    private Path directory;

    private final ScriptedEngine engine = new ScriptedEngine();
    private final NoteSigner signer = NoteSigner.generate("test", new SecureRandom());
    private final TestClock clock = new TestClock();
    private final SwitchedDecoder decoder = new SwitchedDecoder();
    private WakeableClients clients = new WakeableClients();
    private Quotas quotas = quotas(QuotaTable.Limits.NONE);
    private MockProcessorContext<byte[], Handover> context;
    private InferenceProcessor processor;

    /// Knows every record by its offset; while the registry is "down" nothing can be read.
    private static final class SwitchedDecoder implements PromptDecoder {
        final List<Prompt> records = new ArrayList<>();
        boolean down;
        int asked;

        @Override
        public Prompt decode(Source source) {
            asked++;
            if (down) {
                throw new RegistryUnavailableException("down");
            }
            return records.get((int) source.offset());
        }
    }

    @BeforeEach
    void start() {
        Properties properties = new Properties();
        properties.put("application.id", "test");
        properties.put("bootstrap.servers", "nowhere:1");
        properties.put("state.dir", directory.toString());
        context = new MockProcessorContext<>(properties, new TaskId(0, 3), directory.toFile());
        add(Stores.keyValueStoreBuilder(Stores.inMemoryKeyValueStore(InferenceProcessor.PENDING_STORE), Serdes.Bytes(), Serdes.ByteArray())
                .withLoggingDisabled().build());
        Duration retention = Duration.ofHours(1);
        for (String name : List.of(InferenceProcessor.SEEN_STORE, InferenceProcessor.CANCELLED_STORE)) {
            add(Stores.windowStoreBuilder(
                            Stores.inMemoryWindowStore(name, retention, retention, false), Serdes.Bytes(), Serdes.ByteArray())
                    .withLoggingDisabled().build());
        }
        processor = newProcessor();
        processor.init(context);
    }

    @AfterEach
    void stop() {
        processor.close();
    }

    private void add(StateStore store) {
        store.init(context.getStateStoreContext(), store);
        context.addStateStore(store);
    }

    private static Quotas quotas(QuotaTable.Limits limits) {
        return new Quotas(() -> new QuotaTable(limits, Map.of()), 4, Ticker.SYSTEM, new ServiceMetrics(new SimpleMeterRegistry()));
    }

    private InferenceProcessor newProcessor() {
        ServiceConfig config = ServiceConfig.of(Map.of("inflight.max", "4"));
        ServiceMetrics metrics = new ServiceMetrics(new SimpleMeterRegistry());
        return new InferenceProcessor(new InferenceProcessor.Shared(
                engine, decoder, Intake.Limits.of(config), new CacheSalts(signer, ""), TopologyParts.cancels(), quotas,
                new AuditLogs(metrics), clients, metrics, () -> {}, clock, Ticker.SYSTEM, config));
    }

    /// What a crash leaves: the stores.
    private void restart() {
        processor.close();
        context.scheduledPunctuators().clear();
        processor = newProcessor();
        processor.init(context);
    }

    private void send(Prompt prompt) {
        context.setRecordMetadata("llm.prompts", 3, decoder.records.size());
        decoder.records.add(prompt);
        processor.process(new Record<>(null, new byte[] {1, 2, 3}, clock.millis(), new RecordHeaders()));
    }

    private static Prompt prompt(String id) {
        return ServiceDriver.prompt(id, "question " + id).build();
    }

    private void turn() {
        context.scheduledPunctuators().getLast().getPunctuator().punctuate(clock.millis());
    }

    private List<Outcome> outcomes() {
        List<Outcome> all = new ArrayList<>();
        context.forwarded().forEach(forward -> all.addAll(forward.record().value().outcomes()));
        return all;
    }

    private List<String> answered() {
        return outcomes().stream().map(outcome -> ((Outcome.Answered) outcome).prompt().getRequestId()).toList();
    }

    private int pending() {
        KeyValueStore<Bytes, byte[]> store = context.getStateStore(InferenceProcessor.PENDING_STORE);
        int count = 0;
        try (KeyValueIterator<Bytes, byte[]> all = store.all()) {
            while (all.hasNext()) {
                all.next();
                count++;
            }
        }
        return count;
    }

    @Test
    void resumesInOrderWhatARestartLeftPending() {
        List.of("a", "b", "c").forEach(id -> send(prompt(id)));
        engine.answer("b");
        turn();
        assertThat(answered()).containsExactly("b");
        List<ScriptedEngine.Job> before = List.copyOf(engine.submitted);
        restart();
        turn();
        assertThat(engine.submittedIds()).containsExactly("a", "b", "c", "a", "c");
        assertThat(engine.submitted.get(3).prompt.request()).as("the same work, seed included")
                .isEqualTo(before.getFirst().prompt.request());
        assertThat(before).filteredOn(job -> job.cancelled).extracting(ScriptedEngine.Job::id).containsExactlyInAnyOrder("a", "c");

        before.stream().filter(engine.waiting::contains).forEach(old -> old.listener.onEnd(ScriptedEngine.answerTo(old.prompt)));
        turn();
        assertThat(answered()).as("results of before the restart are dropped").containsExactly("b");
        engine.waiting.removeAll(before);
        engine.answerAll();
        turn();
        assertThat(answered()).containsExactly("b", "a", "c");
        assertThat(pending()).isZero();
    }

    @Test
    void worksWhenKafkaStreamsInitializesTheSameInstanceAgain() {
        send(prompt("a"));
        ScriptedEngine.Job before = engine.submitted.getFirst();
        processor.close();
        context.scheduledPunctuators().clear();
        processor.init(context);
        turn();
        assertThat(engine.submittedIds()).containsExactly("a", "a");
        before.listener.onEnd(ScriptedEngine.text(before.prompt, "of the life before"));
        turn();
        assertThat(outcomes()).isEmpty();
        engine.waiting.remove(before);
        engine.answerAll();
        turn();
        assertThat(answered()).containsExactly("a");
        assertThat(((Outcome.Answered) outcomes().getFirst()).result().text()).isEqualTo("answer to question a");
    }

    private void cancel(String id) {
        context.setRecordMetadata("llm.cancels", 3, 0);
        processor.process(new Record<>(
                null, TopologyParts.encode(Cancellation.of(null, id, clock.millis())), clock.millis(), new RecordHeaders()));
    }

    private List<millrace.engine.FinishReason> reasons() {
        return outcomes().stream().map(outcome -> ((Outcome.Answered) outcome).result().reason()).toList();
    }

    @Test
    void aCancellationHoldsOverARestart() {
        send(prompt("a"));
        send(prompt("b"));
        cancel("a");
        assertThat(outcomes()).as("the engine has not stopped yet").isEmpty();
        restart();
        turn();
        assertThat(answered()).containsExactly("a");
        assertThat(reasons()).containsExactly(millrace.engine.FinishReason.CANCELLED);
        assertThat(engine.submittedIds()).as("only the other is computed again").containsExactly("a", "b", "b");
        assertThat(pending()).isEqualTo(1);
        restart();
        turn();
        assertThat(answered()).as("once").containsExactly("a");
    }

    @Test
    void aCancellationEndsAPromptThatCannotBeReadYet() throws Exception {
        decoder.down = true;
        send(prompt("a"));
        cancel("a");
        restart();
        decoder.down = false;
        Thread.sleep(150);
        turn();
        assertThat(answered()).containsExactly("a");
        assertThat(reasons()).containsExactly(millrace.engine.FinishReason.CANCELLED);
        assertThat(engine.submitted).isEmpty();
    }

    @Test
    void aCancellationEndsAnAdmittedPromptWhoseSchemaIsNotKnownAfterARestart() throws Exception {
        send(prompt("a"));
        decoder.down = true;
        restart();
        turn();
        cancel("a");
        decoder.down = false;
        Thread.sleep(150);
        turn();
        assertThat(reasons()).containsExactly(millrace.engine.FinishReason.CANCELLED);
        assertThat(pending()).isZero();
    }

    @Test
    void aCancellationHoldsAfterAWallClockWasSetBack() {
        clock.advance(3_600_000);
        send(prompt("a"));
        cancel("a");
        clock.advance(-7_200_000);
        restart();
        turn();
        assertThat(reasons()).containsExactly(millrace.engine.FinishReason.CANCELLED);
    }

    @Test
    void aCancellationHoldsOverALongOutage() {
        send(prompt("a"));
        cancel("a");
        clock.advance(7_200_000);
        restart();
        turn();
        assertThat(reasons()).containsExactly(millrace.engine.FinishReason.CANCELLED);
    }

    @Test
    void aServiceThatStopsIsNoClientThatCancels() {
        send(prompt("a"));
        processor.close();
        engine.stop("a", "so far");
        processor.init(context);
        turn();
        assertThat(outcomes()).isEmpty();
        assertThat(pending()).isEqualTo(1);
    }

    @Test
    void answersAPromptThatARestartFindsUnreadThoughTheTaskIsClosedAtOnce() {
        decoder.down = true;
        send(ServiceDriver.prompt("a", "q").setModel("another").build());
        decoder.down = false;
        restart();
        restart();
        turn();
        assertThat(outcomes()).singleElement().isInstanceOfSatisfying(Outcome.Rejected.class, rejected ->
                assertThat(rejected.code()).isEqualTo("MODEL_UNKNOWN"));
        assertThat(pending()).isZero();
    }

    @Test
    void aResumedPromptIsCountedAndNeverRefused() {
        List.of("a", "b").forEach(id -> send(prompt(id)));
        quotas = quotas(new QuotaTable.Limits(1, 1, 1));
        restart();
        turn();
        assertThat(engine.submittedIds()).containsExactly("a", "b", "a", "b");
        quotas = quotas(new QuotaTable.Limits(0, 1, 0));
        restart();
        send(prompt("c"));
        assertThat(outcomes()).singleElement().isInstanceOfSatisfying(Outcome.Rejected.class, rejected ->
                assertThat(rejected.code()).isEqualTo("QUOTA_INFLIGHT"));
    }

    @Test
    void aTaskThatIsLostCountsNoLonger() {
        quotas = quotas(new QuotaTable.Limits(0, 4, 0));
        restart();
        send(prompt("a"));
        restart();
        turn();
        engine.waiting.removeFirst();
        engine.answer("a");
        turn();
        assertThat(answered()).containsExactly("a");
        send(prompt("b"));
        assertThat(engine.submittedIds()).as("a quarter of 4").containsExactly("a", "a", "b");
    }

    @Test
    void aDeadlineThatPassedDuringAnOutageIsAnsweredWithoutTheEngine() {
        send(ServiceDriver.prompt("a", "q").setDeadlineMs(clock.millis() + 1_000).build());
        decoder.down = true;
        send(ServiceDriver.prompt("b", "q").setDeadlineMs(clock.millis() + 1_000).build());
        decoder.down = false;
        clock.advance(5_000);
        restart();
        turn();
        assertThat(reasons()).containsExactly(millrace.engine.FinishReason.DEADLINE, millrace.engine.FinishReason.DEADLINE);
        assertThat(engine.submittedIds()).containsExactly("a");
        assertThat(pending()).isZero();
    }

    @Test
    void answersACancelledGenerationNeither() {
        send(prompt("a"));
        engine.end("a", new millrace.engine.GenerationResult("", List.of(), millrace.engine.FinishReason.CANCELLED,
                new millrace.engine.Usage(1, 0, 0), millrace.engine.Timings.NONE, null, null, millrace.engine.Transcript.NONE));
        turn();
        assertThat(outcomes()).isEmpty();
        assertThat(pending()).isEqualTo(1);
    }

    @Test
    void keepsPromptsWhileTheRegistryIsDownAndAnswersThemLater() throws Exception {
        decoder.down = true;
        send(prompt("a"));
        send(prompt("b"));
        turn();
        assertThat(outcomes()).isEmpty();
        assertThat(pending()).isEqualTo(2);
        decoder.down = false;
        Thread.sleep(150);
        turn();
        engine.answerAll();
        turn();
        assertThat(answered()).containsExactly("a", "b");
        assertThat(pending()).isZero();
    }

    @Test
    void keepsAnAdmittedPromptWhoseSchemaIsNotKnownAfterARestart() throws Exception {
        send(prompt("a"));
        decoder.down = true;
        restart();
        turn();
        assertThat(pending()).isEqualTo(1);
        decoder.down = false;
        Thread.sleep(150);
        turn();
        engine.waiting.removeFirst();
        engine.answerAll();
        turn();
        assertThat(answered()).containsExactly("a");
    }

    @Test
    void keepsAnUnreadPromptOverARestart() throws Exception {
        decoder.down = true;
        send(prompt("a"));
        restart();
        decoder.down = false;
        Thread.sleep(150);
        turn();
        engine.answerAll();
        turn();
        assertThat(answered()).containsExactly("a");
    }

    @Test
    void writesAnUnreadPromptToTheStoreOnce() throws Exception {
        decoder.down = true;
        send(prompt("a"));
        int asked = decoder.asked;
        KeyValueStore<Bytes, byte[]> store = context.getStateStore(InferenceProcessor.PENDING_STORE);
        Bytes key = Bytes.wrap(PendingPrompt.storeKey(0));
        byte[] first = store.get(key);
        Thread.sleep(150);
        turn();
        assertThat(decoder.asked).isGreaterThan(asked);
        assertThat(store.get(key)).as("a retry each 100 ms must not write to the changelog").isSameAs(first);
    }

    @Test
    void beginsNothingWhileItStopsAndLeavesItPending() {
        send(prompt("a"));
        clients.holdAll();
        send(prompt("b"));
        turn();
        assertThat(engine.submitted).as("b was polled before the hold").hasSize(1);
        clients = new WakeableClients();
        restart();
        turn();
        assertThat(engine.submitted.stream().map(ScriptedEngine.Job::id)).containsExactly("a", "a", "b");
    }
}
