package millrace.streams.client;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.function.IntFunction;
import java.util.regex.Pattern;
import millrace.schemas.Completion;
import millrace.schemas.Control;
import millrace.schemas.ControlKind;
import millrace.schemas.Delta;
import millrace.schemas.Prompt;
import millrace.schemas.RecordModel;
import millrace.streams.KafkaClients;
import millrace.streams.PromptKey;
import millrace.streams.registry.AvroDecoder;
import millrace.streams.registry.AvroEncoder;
import millrace.streams.registry.AvroSerdeConfig;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.jspecify.annotations.Nullable;

/// Sends prompts to a service over its topics, and gives back their previews and their completions.
///
/// ```java
/// try (MillraceClient client = MillraceClient.open(ClientConfig.builder()
///         .bootstrap("broker:9092").registry("http://registry:8081").build())) {
///     PendingAnswer answer = client.send(prompt, delta -> show(delta.getText()));
///     Completion completion = answer.completion().get();   // committed, and its leaf is in the audit log
/// }
/// ```
///
/// Safe for use by many threads; thousands of requests may wait at once. It reads before it sends, so that no answer is missed;
/// it survives restarts of brokers, and only committed completions are given. Sending blocks for the producer's `max.block.ms` at
/// most, while no broker tells where the prompts topic is or while the producer's buffer is full.
public final class MillraceClient implements AutoCloseable {
    private static final Pattern REQUEST_ID = Pattern.compile("[A-Za-z0-9._:-]{1,128}");
    private static final Pattern TENANT = Pattern.compile("[A-Za-z0-9._:-]{1,64}");
    private static final Duration LAST_WORDS = Duration.ofSeconds(5);

    private final ClientConfig config;
    private final SchemaRegistryClient registry;
    private final KafkaProducer<byte[], byte[]> producer;
    private final AvroEncoder<Prompt> encoder;
    private final Inbox inbox;
    private final ExecutorService executor = Executors.newThreadPerTaskExecutor(
            Thread.ofVirtual().name("millrace-client-", 0).factory());
    private final ScheduledThreadPoolExecutor timer = new ScheduledThreadPoolExecutor(
            1, Thread.ofPlatform().name("millrace-client-timer").daemon().factory());
    private volatile @Nullable AvroEncoder<Control> orders;
    private volatile boolean closed;

    private MillraceClient(
            ClientConfig config,
            SchemaRegistryClient registry,
            KafkaProducer<byte[], byte[]> producer,
            AvroEncoder<Prompt> encoder,
            Inbox inbox) {
        this.config = config;
        this.registry = registry;
        this.producer = producer;
        this.encoder = encoder;
        this.inbox = inbox;
        timer.setRemoveOnCancelPolicy(true);
    }

    /// Connects and takes the place from which completions are read. What is sent from now on cannot be missed.
    ///
    /// @throws ClientException `CLIENT_OPEN` when the cluster or the completions topic is not there
    /// @throws millrace.streams.registry.RegistryException when the registry gives no schema id
    public static MillraceClient open(ClientConfig config) {
        SchemaRegistryClient registry = SchemaRegistryClient.open(config.service().registry());
        Inbox inbox = null;
        KafkaProducer<byte[], byte[]> producer = null;
        try {
            KafkaClients clients = new KafkaClients(config.service());
            AvroDecoder<Completion> completions = new AvroDecoder<>(registry, Completion.class);
            completions.warm(config.topic("completions") + "-value");
            AvroDecoder<Delta> deltas = new AvroDecoder<>(registry, Delta.class);
            deltas.warm(config.topic("deltas") + "-value");
            AvroEncoder<Prompt> encoder = AvroEncoder.open(registry, Prompt.class, config.topic("prompts") + "-value", serde(config));
            inbox = new Inbox(clients.reader(), completions, deltas, config.topic("completions"), config.topic("deltas"));
            producer = clients.producer();
            inbox.start(config.openTimeout());
            return new MillraceClient(config, registry, producer, encoder, inbox);
        } catch (RuntimeException | Error e) {
            if (inbox != null) {
                inbox.close();
            }
            if (producer != null) {
                producer.close(Duration.ZERO);
            }
            registry.close();
            if (e instanceof org.apache.kafka.common.errors.TimeoutException) {
                throw new ClientException("CLIENT_OPEN", "kafka.bootstrap.servers: expected a cluster that answers within "
                        + config.openTimeout() + ", got " + e.getMessage(), e);
            }
            throw e;
        }
    }

    private static AvroSerdeConfig serde(ClientConfig config) {
        return AvroSerdeConfig.of(config.service().registry());
    }

    /// Sends a prompt.
    ///
    /// @throws IllegalArgumentException when its id or tenant has no valid form, or a request of its name waits already
    public PendingAnswer send(Prompt prompt) {
        return send(prompt, SendOptions.DEFAULT);
    }

    /// Sends a prompt and asks for its previews.
    public PendingAnswer send(Prompt prompt, DeltaListener listener) {
        return send(prompt, SendOptions.DEFAULT.withListener(listener));
    }

    /// Sends a prompt.
    ///
    /// @throws IllegalArgumentException when its id or tenant has no valid form, or a request of its name waits already
    /// @throws ClientException `CLIENT_CLOSED`
    public PendingAnswer send(Prompt prompt, SendOptions options) {
        check(prompt);
        DeltaListener listener = options.listener();
        byte[] key = options.key();
        Request request = new Request(new Request.Name(prompt.getTenant(), prompt.getRequestId()),
                key == null ? PromptKey.of(prompt) : key, listener, executor, this::cancel);
        byte[] value = encoder.encode(listener == null || prompt.getPreview() ? prompt : withPreview(prompt));
        if (listener != null) {
            inbox.wantDeltas();
        }
        requireOpen();
        if (!inbox.expect(request)) {
            throw new IllegalArgumentException("request_id " + prompt.getRequestId()
                    + ": expected one that is not in flight here, got one that is; wait for its completion, or use a new id");
        }
        request.completion().whenComplete((answer, problem) -> {
            inbox.forget(request);
            request.over();
        });
        watch(request, options.timeout() == null ? config.timeout() : options.timeout());
        transmit(request, value, options.headers());
        if (closed) {
            inbox.failAll(closedException());
        }
        return request;
    }

    /// Sends a prompt `n` times, for `n` answers: under the ids `<id>.0` to `<id>.<n-1>`, with seeds that count up where it has one.
    /// All go to one partition, so that they share the KV pages of their prompt.
    public List<PendingAnswer> sendAll(Prompt prompt, int n) {
        return sendAll(prompt, n, i -> SendOptions.DEFAULT);
    }

    /// The same with options for each, by its number.
    public List<PendingAnswer> sendAll(Prompt prompt, int n, IntFunction<SendOptions> options) {
        if (n < 1) {
            throw new IllegalArgumentException("n: expected at least 1, got " + n);
        }
        byte[] key = PromptKey.of(prompt);
        List<PendingAnswer> answers = new ArrayList<>(n);
        for (Prompt each : copies(prompt, n)) {
            SendOptions chosen = options.apply(answers.size());
            answers.add(send(each, chosen.key() == null ? chosen.withKey(key) : chosen));
        }
        return answers;
    }

    /// The prompts that [#sendAll] sends.
    public static List<Prompt> copies(Prompt prompt, int n) {
        List<Prompt> copies = new ArrayList<>(n);
        for (int i = 0; i < n; i++) {
            Prompt copy = copy(prompt);
            copy.setRequestId(prompt.getRequestId() + "." + i);
            if (copy.getSampling() != null && copy.getSampling().getSeed() != null) {
                copy.getSampling().setSeed(copy.getSampling().getSeed() + i);
            }
            copies.add(copy);
        }
        return copies;
    }

    /// Not the builder: it copies nested records by looking up their classes by name, which Avro refuses.
    private static Prompt copy(Prompt prompt) {
        return RecordModel.instance().deepCopy(Prompt.getClassSchema(), prompt);
    }

    private static Prompt withPreview(Prompt prompt) {
        Prompt copy = copy(prompt);
        copy.setPreview(true);
        return copy;
    }

    /// The service would answer under another id than it was asked: that answer would never be recognized.
    private static void check(Prompt prompt) {
        if (!REQUEST_ID.matcher(prompt.getRequestId()).matches()) {
            throw new IllegalArgumentException("request_id: expected 1 to 128 characters of A-Z a-z 0-9 . _ : -, got "
                    + prompt.getRequestId().length() + " characters, not all of these");
        }
        if (prompt.getTenant() != null && !TENANT.matcher(prompt.getTenant()).matches()) {
            throw new IllegalArgumentException("tenant: expected 1 to 64 characters of A-Z a-z 0-9 . _ : -, got "
                    + prompt.getTenant().length() + " characters, not all of these");
        }
    }

    private void watch(Request request, Duration timeout) {
        if (timeout.isZero()) {
            return;
        }
        try {
            request.alarm(timer.schedule(() -> {
                String trouble = inbox.trouble();
                inbox.forget(request);
                request.fail(new ClientException("CLIENT_TIMEOUT", "request " + request.requestId() + ": no completion within "
                        + timeout + (trouble.isEmpty() ? "; is the service running? " : "; reading fails (" + trouble + "). ")
                        + "The prompt may still be answered", null));
            }, timeout.toNanos(), TimeUnit.NANOSECONDS));
        } catch (RejectedExecutionException e) {
            // Being closed, which fails the request anyway.
            inbox.failAll(closedException());
        }
    }

    private void transmit(Request request, byte[] value, Map<String, String> headers) {
        var record = new ProducerRecord<>(config.topic("prompts"), request.key(), value);
        headers.forEach((name, text) -> record.headers().add(name, text.getBytes(StandardCharsets.UTF_8)));
        try {
            producer.send(record, (at, problem) -> {
                if (problem == null) {
                    inbox.sentTo(at.partition());
                    request.sent().complete(at);
                } else {
                    notSent(request, problem);
                }
            });
        } catch (KafkaException | IllegalStateException e) {
            notSent(request, e);
        }
    }

    private void notSent(Request request, Exception why) {
        inbox.forget(request);
        request.fail(new ClientException("CLIENT_SEND_FAILED", "request " + request.requestId() + ": topic " + config.topic("prompts")
                + " did not acknowledge it (" + why.getMessage() + "); the same prompt may be sent again under the same id", why));
    }

    private CompletableFuture<Void> cancel(Request request) {
        return request.sent().thenComposeAsync(
                at -> order(request.name().tenant(), request.requestId(), request.key(), at.partition()), executor);
    }

    /// Asks the service to end a generation that this client need not have asked for.
    ///
    /// @param key that of the prompt's record: its session id, or its request id where it has none
    /// @return done when the cluster has the order
    public CompletableFuture<Void> cancel(@Nullable String tenant, String requestId, String key) {
        requireOpen();
        return CompletableFuture.supplyAsync(() -> order(tenant, requestId, key.getBytes(StandardCharsets.UTF_8), null), executor)
                .thenCompose(done -> done);
    }

    /// @param partition of the prompt, where it is known
    private CompletableFuture<Void> order(@Nullable String tenant, String requestId, byte[] key, @Nullable Integer partition) {
        String topic = config.topic("cancels");
        AvroEncoder<Control> to = orders;
        if (to == null) {
            to = AvroEncoder.open(registry, Control.class, topic + "-value", serde(config));
            orders = to;
        }
        Control control = Control.newBuilder().setKind(ControlKind.CANCEL).setRequestId(requestId).setTenant(tenant)
                .setIssuedMs(System.currentTimeMillis()).build();
        CompletableFuture<Void> done = new CompletableFuture<>();
        producer.send(new ProducerRecord<>(topic, partition, key, to.encode(control)), (RecordMetadata at, Exception problem) -> {
            if (problem == null) {
                done.complete(null);
            } else {
                done.completeExceptionally(new ClientException("CLIENT_SEND_FAILED", "cancellation of " + requestId + ": topic " + topic
                        + " did not acknowledge it (" + problem.getMessage() + ")", problem));
            }
        });
        return done;
    }

    /// How many requests wait for their completion.
    public int waiting() {
        return inbox.size();
    }

    private void requireOpen() {
        if (closed) {
            throw closedException();
        }
    }

    private static ClientException closedException() {
        return new ClientException("CLIENT_CLOSED", "the client was closed; a prompt that was sent is answered all the same", null);
    }

    /// Sends what is still to be sent, gives up what waits, and disconnects.
    @Override
    public void close() {
        if (closed) {
            return;
        }
        closed = true;
        producer.close(LAST_WORDS);
        inbox.close();
        inbox.failAll(closedException());
        timer.shutdownNow();
        executor.shutdown();
        registry.close();
    }
}
