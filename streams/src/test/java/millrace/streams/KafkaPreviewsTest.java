package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.nio.charset.StandardCharsets;
import java.time.Clock;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.function.Supplier;
import millrace.engine.GenerationListener;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.PreparedPrompt;
import millrace.engine.PromptInput;
import millrace.schemas.Delta;
import millrace.schemas.DeltaKind;
import millrace.schemas.Prompt;
import millrace.streams.registry.AvroDecoder;
import millrace.streams.registry.AvroEncoder;
import millrace.streams.registry.AvroSerdeConfig;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/// What becomes of deltas between the engine's thread and a producer that works, refuses, hangs or breaks.
@Timeout(60)
class KafkaPreviewsTest {
    private final SchemaRegistryClient registry =
            SchemaRegistryClient.open(Map.of("schema.registry.url", "mock://" + UUID.randomUUID()));
    private final AvroDecoder<Delta> decoder = new AvroDecoder<>(registry, Delta.class);
    private final SimpleMeterRegistry meters = new SimpleMeterRegistry();
    private final List<GenerationResult> ended = new ArrayList<>();
    private KafkaPreviews previews;

    @AfterEach
    void close() {
        previews.close();
        registry.close();
    }

    /// Kafka's own stand-in for a producer, which answers as the test says.
    private static class Broker extends MockProducer<byte[], byte[]> {
        RuntimeException refusal;

        Broker() {
            super(true, null, new ByteArraySerializer(), new ByteArraySerializer());
        }

        @Override
        public synchronized Future<RecordMetadata> send(ProducerRecord<byte[], byte[]> record, Callback callback) {
            sendException = refusal;
            return super.send(record, callback);
        }
    }

    private void start(Supplier<Producer<byte[], byte[]>> producers, Map<String, String> settings) {
        AvroEncoder<Delta> encoder = AvroEncoder.open(registry, Delta.class, "llm.deltas-value", AvroSerdeConfig.of(Map.of()));
        previews = new KafkaPreviews(new ScriptedEngine(), encoder, producers, ServiceConfig.of(settings), new PreviewMeters(meters),
                Clock.systemUTC()).start();
    }

    private GenerationListener listen(String id, boolean wanted, boolean again, boolean over) {
        Prompt prompt = Prompt.newBuilder().setRequestId(id).setPrompt("q").setPreview(wanted).build();
        PreparedPrompt prepared = new PreparedPrompt(GenerationRequest.greedy(id, new PromptInput.Text("q"), 8), "q", new int[] {1});
        RecordHeaders brought = new RecordHeaders();
        brought.add("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".getBytes(StandardCharsets.UTF_8));
        brought.add("other", new byte[0]);
        Source source = new Source("llm.prompts", 0, 7, 0, "key".getBytes(StandardCharsets.UTF_8), new byte[0], brought);
        return previews.of(new Previews.Shown(source, prompt, prepared, again), () -> over, ended::add);
    }

    private void end(GenerationListener listener) {
        PreparedPrompt prepared = new PreparedPrompt(GenerationRequest.greedy("x", new PromptInput.Text("q"), 8), "q", new int[] {1});
        listener.onEnd(ScriptedEngine.text(prepared, "all"));
    }

    private List<Delta> sent(Broker broker) {
        return broker.history().stream().map(record -> decoder.decode(record.value())).toList();
    }

    private double count(String name, String... tags) {
        return meters.get(name).tags(tags).counter().count();
    }

    private static void await(Supplier<Boolean> what) throws InterruptedException {
        long until = System.nanoTime() + Duration.ofSeconds(30).toNanos();
        while (!what.get()) {
            assertThat(System.nanoTime()).as("in time").isLessThan(until);
            Thread.sleep(2);
        }
    }

    @Test
    void sendsToThePromptsPartitionUnderItsKeyAndMarked() throws Exception {
        Broker broker = new Broker();
        start(() -> broker, Map.of());
        GenerationListener listener = listen("r", true, false, false);
        listener.onDelta("Hello", 1);
        await(() -> broker.history().size() == 1);
        listener.onDelta(" world", 2);
        end(listener);
        await(() -> broker.history().size() == 3);
        assertThat(sent(broker)).extracting(Delta::getKind).containsExactly(DeltaKind.CONTENT, DeltaKind.CONTENT, DeltaKind.END);
        assertThat(sent(broker)).extracting(Delta::getSeq).containsExactly(0L, 1L, 2L);
        ProducerRecord<byte[], byte[]> first = broker.history().getFirst();
        assertThat(first.topic()).isEqualTo("llm.deltas");
        assertThat(first.partition()).isZero();
        assertThat(first.key()).asString(StandardCharsets.UTF_8).isEqualTo("key");
        assertThat(first.headers().lastHeader("millrace-preview").value()).asString(StandardCharsets.UTF_8).isEqualTo("unattested");
        assertThat(first.headers()).extracting(header -> header.key()).as("and the prompt's trace").containsExactly("millrace-preview", "traceparent");
        assertThat(ended).hasSize(1);
        assertThat(count("millrace.previews.sent")).isEqualTo(3);
        assertThat(meters.get("millrace.previews.delay").timer().count()).as("of texts").isEqualTo(2);
    }

    @Test
    void costsNothingWhereNoneIsWanted() {
        start(Broker::new, Map.of());
        Prompt prompt = Prompt.newBuilder().setRequestId("r").setPrompt("q").build();
        GenerationListener end = ended::add;
        PreparedPrompt prepared = new PreparedPrompt(GenerationRequest.greedy("r", new PromptInput.Text("q"), 8), "q", new int[] {1});
        Source source = new Source("llm.prompts", 0, 7, 0, null, new byte[0], new RecordHeaders());
        assertThat(previews.of(new Previews.Shown(source, prompt, prepared, false), () -> false, end)).isSameAs(end);
    }

    @Test
    void voidsWhatWasShownOfAResultThatIsComputedAgain() throws Exception {
        Broker broker = new Broker();
        start(() -> broker, Map.of());
        GenerationListener first = listen("r", true, false, false);
        first.onDelta("damaged", 1);
        end(first);
        GenerationListener second = listen("r", true, true, false);
        await(() -> broker.history().size() == 3);
        second.onDelta("good", 1);
        end(second);
        await(() -> broker.history().size() == 5);
        List<Delta> sent = sent(broker);
        assertThat(sent).extracting(Delta::getKind).containsExactly(
                DeltaKind.CONTENT, DeltaKind.END, DeltaKind.RESTART, DeltaKind.CONTENT, DeltaKind.END);
        assertThat(sent.get(2).getAttempt()).isGreaterThan(sent.get(1).getAttempt()).isEqualTo(sent.get(4).getAttempt());
    }

    @Test
    void doesNotAnnounceACompletionThatDoesNotCome() throws Exception {
        Broker broker = new Broker();
        start(() -> broker, Map.of());
        GenerationListener failed = listen("failed", true, false, false);
        failed.onDelta("a", 1);
        failed.onEnd(ScriptedEngine.failed("ENGINE_FAILED", "no more"));
        GenerationListener lost = listen("lost", true, false, true);
        lost.onDelta("b", 1);
        end(lost);
        GenerationListener last = listen("last", true, false, false);
        end(last);
        await(() -> sent(broker).stream().anyMatch(d -> d.getRequestId().equals("last")));
        assertThat(sent(broker)).filteredOn(d -> d.getKind() == DeltaKind.END).extracting(Delta::getRequestId).containsExactly("last");
        assertThat(ended).hasSize(3);
    }

    /// A producer that hangs: the engine's thread never waits, what does not fit leaves a hole.
    @Test
    void dropsWhatDoesNotFitAndShowsTheHole() throws Exception {
        CountDownLatch hang = new CountDownLatch(1);
        CountDownLatch hanging = new CountDownLatch(1);
        Broker broker = new Broker() {
            @Override
            public synchronized Future<RecordMetadata> send(ProducerRecord<byte[], byte[]> record, Callback callback) {
                hanging.countDown();
                try {
                    hang.await();
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
                return super.send(record, callback);
            }
        };
        start(() -> broker, Map.of("previews.queue.max", "10"));
        GenerationListener listener = listen("r", true, false, false);
        listener.onDelta("first", 1);
        hanging.await();
        for (int i = 2; i <= 30; i++) {
            listener.onDelta("more", i);
        }
        end(listener);
        assertThat(ended).as("the engine's thread went on").hasSize(1);
        assertThat(count("millrace.previews.dropped", "reason", "overflow")).isEqualTo(19);
        hang.countDown();
        await(() -> broker.history().size() == 3);
        assertThat(sent(broker)).extracting(Delta::getSeq, Delta::getText, Delta::getTokens).containsExactly(
                org.assertj.core.groups.Tuple.tuple(0L, "first", 1), org.assertj.core.groups.Tuple.tuple(1L, "more".repeat(10), 11),
                org.assertj.core.groups.Tuple.tuple(21L, "", 3));
    }

    @Test
    void countsWhatTheBrokersRefuseAndComesBack() throws Exception {
        Broker broker = new Broker();
        start(() -> broker, Map.of());
        broker.refusal = null;
        List<Broker> made = new ArrayList<>(List.of(broker));
        previews.close();
        Broker refusing = new Broker() {
            @Override
            public synchronized Future<RecordMetadata> send(ProducerRecord<byte[], byte[]> record, Callback callback) {
                if (refusal != null) {
                    callback.onCompletion(null, refusal);
                    return java.util.concurrent.CompletableFuture.failedFuture(refusal);
                }
                return super.send(record, callback);
            }
        };
        made.add(refusing);
        start(() -> refusing, Map.of());
        refusing.refusal = new TopicAuthorizationException(java.util.Set.of("llm.deltas"));
        GenerationListener listener = listen("r", true, false, false);
        listener.onDelta("lost", 1);
        await(() -> count("millrace.previews.dropped", "reason", "failed") == 1);
        listener.onDelta("lost as well, without asking", 2);
        await(() -> count("millrace.previews.dropped", "reason", "failed") == 2);
        refusing.refusal = null;
        Thread.sleep(1_100);
        listener.onDelta("back", 3);
        end(listener);
        await(() -> refusing.history().size() == 2);
        assertThat(sent(refusing)).extracting(Delta::getSeq).as("with a hole").containsExactly(2L, 3L);
    }

    @Test
    void closesAProducerThatIsOfNoMoreUse() throws Exception {
        Broker broken = new Broker();
        start(() -> broken, Map.of());
        broken.refusal = new KafkaException("in an error state");
        GenerationListener listener = listen("r", true, false, false);
        listener.onDelta("a", 1);
        await(() -> count("millrace.previews.dropped", "reason", "failed") == 1);
        await(broken::closed);
        end(listener);
        assertThat(ended).hasSize(1);
    }
}
