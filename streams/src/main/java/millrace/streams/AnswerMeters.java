package millrace.streams;

import io.micrometer.core.instrument.DistributionSummary;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tags;
import io.micrometer.core.instrument.Timer;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import millrace.engine.GenerationResult;

/// Meters of answers as OpenTelemetry's conventions for generative models name them, each with the attributes that they
/// want. A series more for each operation and each error code that occurs: both are few.
final class AnswerMeters {
    private record Kind(String operation, String error) {}

    /// The meters of one kind of answer.
    private record Series(DistributionSummary input, DistributionSummary output, Timer firstToken, Timer perToken, Timer request) {}

    private final MeterRegistry registry;
    private final String model;
    private final Map<Kind, Series> series = new ConcurrentHashMap<>();

    /// @param model name of the model that answers
    AnswerMeters(MeterRegistry registry, String model) {
        this.registry = registry;
        this.model = model;
        of(new Kind(SemanticNames.CHAT, ""));
    }

    static Timer timer(MeterRegistry registry, String name, Tags tags, double[] seconds) {
        Duration[] bounds = Arrays.stream(seconds).mapToObj(s -> Duration.ofNanos(Math.round(s * 1e9))).toArray(Duration[]::new);
        return Timer.builder(name).tags(tags).serviceLevelObjectives(bounds).register(registry);
    }

    private Series of(Kind kind) {
        return series.computeIfAbsent(kind, missing -> {
            Tags tags = Tags.of(
                    SemanticNames.GEN_AI_PROVIDER, SemanticNames.PROVIDER, SemanticNames.GEN_AI_OPERATION, kind.operation(),
                    SemanticNames.GEN_AI_REQUEST_MODEL, model, SemanticNames.GEN_AI_RESPONSE_MODEL, model);
            Tags ended = tags.and(SemanticNames.ERROR_TYPE, kind.error());
            return new Series(
                    tokens(tags.and(SemanticNames.GEN_AI_TOKEN_TYPE, "input")),
                    tokens(tags.and(SemanticNames.GEN_AI_TOKEN_TYPE, "output")),
                    timer(registry, SemanticNames.TIME_TO_FIRST_TOKEN, tags, SemanticNames.firstTokenSeconds()),
                    timer(registry, SemanticNames.TIME_PER_OUTPUT_TOKEN, tags, SemanticNames.perTokenSeconds()),
                    timer(registry, SemanticNames.REQUEST_DURATION, ended, SemanticNames.requestSeconds()));
        });
    }

    private DistributionSummary tokens(Tags tags) {
        return DistributionSummary.builder(SemanticNames.TOKEN_USAGE).tags(tags)
                .serviceLevelObjectives(SemanticNames.tokens()).register(registry);
    }

    void answered(Outcome.Answered answered) {
        GenerationResult result = answered.result();
        Series meters = of(new Kind(operation(answered), result.errorCode() == null ? "" : result.errorCode()));
        meters.input().record(result.usage().promptTokens());
        meters.output().record(result.usage().completionTokens());
        if (result.usage().completionTokens() > 0) {
            meters.firstToken().record(result.timings().firstTokenNanos(), TimeUnit.NANOSECONDS);
        }
        meters.request().record(result.timings().firstTokenNanos() + result.timings().decodeNanos(), TimeUnit.NANOSECONDS);
        if (result.usage().completionTokens() > 1) {
            meters.perToken().record(
                    result.timings().decodeNanos() / (result.usage().completionTokens() - 1), TimeUnit.NANOSECONDS);
        }
    }

    /// What the conventions call the operation: a conversation, or a text that is continued.
    static String operation(Outcome.Answered answered) {
        List<?> messages = answered.prompt().getMessages();
        return messages == null || messages.isEmpty() ? SemanticNames.TEXT_COMPLETION : SemanticNames.CHAT;
    }
}
