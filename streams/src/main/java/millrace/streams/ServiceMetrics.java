package millrace.streams;

import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.DistributionSummary;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.Timer;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import millrace.engine.GenerationResult;
import org.jspecify.annotations.Nullable;

/// The service's own metrics. Names are a contract; the messaging and GenAI ones follow the OpenTelemetry conventions.
final class ServiceMetrics {
    private static final Tags MESSAGING =
            Tags.of(SemanticNames.MESSAGING_SYSTEM, SemanticNames.SYSTEM, SemanticNames.MESSAGING_OPERATION, "process");

    private final MeterRegistry registry;
    private final Timer processing;
    private final Counter received;
    private final Counter duplicates;
    private final Counter resumed;
    private final Counter leaves;
    private final Counter checkpoints;
    private final Counter checkpointFailures;
    private final Counter alarms;
    private final Counter alarmFailures;
    private final Counter recomputedSteps;
    private final Counter withheld;
    private final Counter suspects;
    private final Counter deadLetters;
    private final Counter cachedTokens;
    private final Counter verifiedPages;
    private final DistributionSummary batchSize;
    private final Timer queueWait;
    private final Map<String, Counter> outcomes = new ConcurrentHashMap<>();
    private final PreviewMeters previews;
    private final PartitionQueues queues = new PartitionQueues(this);
    private final AtomicLong witnessedMs = new AtomicLong(-1);
    private volatile @Nullable AnswerMeters answers;
    private volatile ServiceTraces traces = ServiceTraces.OFF;

    ServiceMetrics(MeterRegistry registry) {
        this.registry = registry;
        received = registry.counter(SemanticNames.CONSUMED_MESSAGES, MESSAGING);
        processing = AnswerMeters.timer(registry, SemanticNames.PROCESS_DURATION, MESSAGING, SemanticNames.messageSeconds());
        duplicates = registry.counter("millrace.prompts.duplicate");
        resumed = registry.counter("millrace.prompts.resumed");
        leaves = registry.counter("millrace.audit.leaves");
        checkpoints = registry.counter("millrace.audit.checkpoints");
        checkpointFailures = registry.counter("millrace.audit.checkpoint.failures");
        alarms = registry.counter("millrace.audit.alarms");
        alarmFailures = registry.counter("millrace.audit.alarm.failures");
        recomputedSteps = registry.counter("millrace.integrity.recomputed.steps");
        withheld = registry.counter("millrace.integrity.withheld");
        suspects = registry.counter("millrace.integrity.suspects");
        deadLetters = registry.counter("millrace.dlq.records");
        gauge("millrace.audit.witness.lag.seconds", this::witnessLagSeconds);
        // From 0 on, so that the first of each is an increase.
        List.of("done", "refused", "unreadable").forEach(result -> registry.counter("millrace.control.records", "result", result));
        List.of("cancelled", "early", "late", "refused", "unreadable")
                .forEach(result -> registry.counter("millrace.cancels", "result", result));
        for (String tenant : List.of(QuotaTable.ANONYMOUS, QuotaTable.OTHERS)) {
            registry.counter("millrace.quota.tokens", "tenant", tenant);
            List.of("QUOTA_TOKENS", "QUOTA_INFLIGHT", "QUOTA_CONTEXT")
                    .forEach(code -> registry.counter("millrace.quota.refused", "tenant", tenant, "code", code));
        }
        List.of("stop", "length", "failed", "rejected").forEach(result -> outcome(result, ""));
        previews = new PreviewMeters(registry);
        cachedTokens = registry.counter("millrace.prompts.cached.tokens");
        verifiedPages = registry.counter("millrace.integrity.kv.verified");
        batchSize = DistributionSummary.builder("millrace.batch.size")
                .serviceLevelObjectives(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024).register(registry);
        queueWait = AnswerMeters.timer(registry, "millrace.queue.wait", Tags.empty(), SemanticNames.firstTokenSeconds());
    }

    /// A witness cosigned one of this process's logs.
    ///
    /// @param epochMs by the witness's clock
    void witnessed(long epochMs) {
        witnessedMs.accumulateAndGet(epochMs, Math::max);
    }

    private double witnessLagSeconds() {
        long last = witnessedMs.get();
        return last < 0 ? Double.NaN : Math.max(0, System.currentTimeMillis() - last) / 1_000.0;
    }

    /// Names the model that answers from here on; answers are measured only then.
    void serves(String model) {
        answers = new AnswerMeters(registry, model);
    }

    /// What becomes of previews.
    PreviewMeters previews() {
        return previews;
    }

    /// From here on prompts are traced so.
    void trace(ServiceTraces by) {
        traces = by;
    }

    /// Traces of prompts.
    ServiceTraces traces() {
        return traces;
    }

    /// What waits in the partitions of the prompts.
    PartitionQueues queues() {
        return queues;
    }

    void gauge(String name, Supplier<Number> value) {
        registry.gauge(name, this, self -> value.get().doubleValue());
    }

    /// A gauge of one of several partitions.
    void ofPartition(String name, int partition, Supplier<Number> value) {
        Gauge.builder(name, () -> value.get().doubleValue()).tag("partition", Integer.toString(partition)).register(registry);
    }

    /// A fact that is text: 1, under texts as tags.
    ///
    /// @param tags names that are followed by their values
    void fact(String name, String... tags) {
        Gauge.builder(name, () -> 1).tags(tags).register(registry);
    }

    /// A counter that somebody else keeps.
    ///
    /// @param tags names that are followed by their values
    void counter(String name, LongSupplier value, String... tags) {
        // The registry holds the object of a counter weakly, and nobody else holds `value`.
        FunctionCounter.builder(name, this, self -> value.getAsLong()).tags(tags).register(registry);
    }

    /// One prompt record was taken in; what the engine does with it is not part of this time.
    void processed(long nanos) {
        received.increment();
        processing.record(nanos, TimeUnit.NANOSECONDS);
    }

    void duplicate() {
        duplicates.increment();
    }

    void resumed(int count) {
        resumed.increment(count);
    }

    void batch(int size) {
        batchSize.record(size);
    }

    void leaf() {
        leaves.increment();
    }

    /// An order of the operator.
    ///
    /// @param result `done`, `refused` or `unreadable`
    void control(String result) {
        registry.counter("millrace.control.records", "result", result).increment();
    }

    /// A record of the cancels topic.
    ///
    /// @param result `cancelled`, `early`, `late`, `refused` or `unreadable`
    void cancel(String result) {
        registry.counter("millrace.cancels", "result", result).increment();
    }

    /// A quota refused a prompt.
    ///
    /// @param tenant one that the quotas name, or what stands for all others
    void quotaRefused(String tenant, String code) {
        registry.counter("millrace.quota.refused", "tenant", tenant, "code", code).increment();
    }

    /// A prompt has used so many tokens of its tenant's.
    void quotaUsed(String tenant, long tokens) {
        registry.counter("millrace.quota.tokens", "tenant", tenant).increment(tokens);
    }

    void checkpoint() {
        checkpoints.increment();
    }

    void checkpointFailed() {
        checkpointFailures.increment();
    }

    void alarm() {
        alarms.increment();
    }

    void alarmFailed() {
        alarmFailures.increment();
    }

    /// A result was not handed on, since the engine does not trust it any more.
    void withheld() {
        withheld.increment();
    }

    /// So many leaves of a log were named as in doubt.
    void suspects(long count) {
        suspects.increment(count);
    }

    void outcome(Outcome outcome) {
        switch (outcome) {
            case Outcome.Answered answered -> {
                answered(answered.result());
                AnswerMeters meters = answers;
                if (meters != null) {
                    meters.answered(answered);
                }
            }
            case Outcome.Rejected rejected -> count("rejected", rejected.code());
            case Outcome.Undecodable undecodable -> {
                deadLetters.increment();
                count("undecodable", undecodable.code());
            }
            case Outcome.Ordered ordered -> { }
        }
    }

    private void answered(GenerationResult result) {
        count(result.reason().name().toLowerCase(java.util.Locale.ROOT), result.errorCode() == null ? "" : result.errorCode());
        cachedTokens.increment(result.usage().cachedPromptTokens());
        recomputedSteps.increment(result.transcript().recomputedSteps());
        if (result.usage().completionTokens() == 0) {
            return; // no token, no times of tokens
        }
        queueWait.record(result.timings().queuedNanos(), TimeUnit.NANOSECONDS);
        verifiedPages.increment(result.transcript().kvPagesVerified());
    }

    private void count(String result, String code) {
        outcome(result, code).increment();
    }

    private Counter outcome(String result, String code) {
        return outcomes.computeIfAbsent(result + '/' + code, key ->
                registry.counter("millrace.completions", "result", result, "code", code));
    }
}
