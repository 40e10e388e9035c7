package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import millrace.schemas.Sampling;
import millrace.streams.tracing.SpanFact;
import millrace.streams.tracing.SpanSink;
import millrace.streams.tracing.TraceContext;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ServiceTracesTest {
    private static final String PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    private static final String TEXT = "a prompt that nobody else may read";

    @TempDir
    private Path directory;

    private record Recorded(@Nullable TraceContext parent, SpanFact span, List<SpanFact> within) {}

    private static final class Kept implements SpanSink {
        private final List<Recorded> all = new ArrayList<>();

        @Override
        public TraceContext record(@Nullable TraceContext parent, SpanFact span, List<SpanFact> within) {
            all.add(new Recorded(parent, span, within));
            return new TraceContext("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", 1, "");
        }

        @Override
        public void close() {}
    }

    private static Headers headers(String... pairs) {
        RecordHeaders headers = new RecordHeaders();
        for (int i = 0; i < pairs.length; i += 2) {
            headers.add(pairs[i], pairs[i + 1].getBytes(StandardCharsets.UTF_8));
        }
        return headers;
    }

    private static List<String> of(Headers headers, String name) {
        List<String> values = new ArrayList<>();
        for (Header header : headers.headers(name)) {
            values.add(new String(header.value(), StandardCharsets.UTF_8));
        }
        return values;
    }

    @Test
    void aPromptsContextGoesOnWithoutAnExporter() {
        try (ServiceDriver driver = new ServiceDriver(directory, Map.of())) {
            driver.send(ServiceDriver.prompt("a", TEXT).build(), headers("traceparent", PARENT, "tracestate", "rojo=1", "mine", "x"));
            driver.send(ServiceDriver.prompt("b", TEXT).build(), headers("traceparent", "00-nonsense", "tracestate", "rojo=1"));
            driver.send(ServiceDriver.prompt("c", TEXT).build(), headers("traceparent", PARENT, "traceparent", "a second one"));
            driver.send(ServiceDriver.prompt("d", TEXT).setSampling(Sampling.newBuilder().setMaxTokens(-1).build()).build(), headers("traceparent", PARENT));
            driver.answerAll();
            List<Headers> answers = new ArrayList<>();
            for (String id : List.of("a", "b", "c", "d")) {
                answers.add(driver.completions.stream()
                        .filter(record -> of(record.headers(), "ce_subject").equals(List.of(id))).findFirst().orElseThrow().headers());
            }
            assertThat(of(answers.get(0), "traceparent")).containsExactly(PARENT);
            assertThat(of(answers.get(0), "tracestate")).containsExactly("rojo=1");
            assertThat(of(answers.get(0), "mine")).containsExactly("x");
            assertThat(of(answers.get(1), "traceparent")).as("not well-formed").isEmpty();
            assertThat(of(answers.get(1), "tracestate")).isEmpty();
            assertThat(of(answers.get(2), "traceparent")).containsExactly(PARENT);
            assertThat(of(answers.get(3), "traceparent")).as("of a refusal").containsExactly(PARENT);
        }
    }

    @Test
    void spansHaveTheConventionsNamesAndNoContent() {
        try (ServiceDriver driver = new ServiceDriver(directory, Map.of())) {
            Kept kept = new Kept();
            driver.metrics.trace(new ServiceTraces(kept, "llm-inference", "llm.completions"));
            driver.send(ServiceDriver.prompt("a", TEXT).build(), headers("traceparent", PARENT));
            driver.pass(250);
            driver.answerAll();
            driver.send(ServiceDriver.prompt("b", TEXT).setSampling(Sampling.newBuilder().setMaxTokens(-1).build()).build());
            driver.sendRaw(new byte[] {1}, TEXT.getBytes(StandardCharsets.UTF_8), new RecordHeaders());
            assertThat(kept.all).hasSize(3);
            Recorded answered = kept.all.getFirst();
            assertThat(answered.parent()).isEqualTo(TraceContext.of(headers("traceparent", PARENT)).orElseThrow());
            assertThat(answered.span().name()).isEqualTo("process llm.prompts");
            assertThat(answered.span().endNanos() - answered.span().beginNanos()).as("from its taking in on").isGreaterThanOrEqualTo(250_000_000L);
            assertThat(answered.span().attributes()).containsEntry("messaging.system", "kafka").containsEntry("messaging.kafka.offset", 0L)
                    .containsEntry("messaging.consumer.group.name", "llm-inference").containsEntry("messaging.destination.partition.id", "0");
            assertThat(answered.within()).extracting(SpanFact::name)
                    .containsExactly("text_completion " + driver.engine.card().name(), "send llm.completions");
            assertThat(answered.within().getFirst().attributes()).containsEntry("gen_ai.provider.name", "millrace")
                    .containsKeys("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.request.max_tokens");
            assertThat(answered.within().getLast().attributes()).containsKeys("millrace.audit.seq", "millrace.audit.origin");
            assertThat(of(driver.completions.getFirst().headers(), "traceparent"))
                    .containsExactly("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
            assertThat(kept.all.get(1).span().error()).isEqualTo("PARAM_RANGE");
            assertThat(kept.all.get(2).within()).as("of a dead letter nothing is sent as an answer").isEmpty();
            for (Recorded each : kept.all) {
                String everything = each.span() + " " + each.within() + each.within().stream()
                        .flatMap(span -> span.attributes().values().stream())
                        .map(value -> value instanceof String[] texts ? Arrays.toString(texts) : value.toString()).toList();
                assertThat(everything).doesNotContain("nobody else");
            }
        }
    }

    @Test
    void namesASettingThatCannotBe() {
        assertThatThrownBy(() -> ServiceTraces.of(ServiceConfig.of(Map.of("tracing.otlp.endpoint", "collector:4317")), Map.of()))
                .isInstanceOf(ConfigException.class)
                .hasMessage("config key \"tracing.otlp.endpoint\": expected http://HOST:PORT or https://HOST:PORT, got \"collector:4317\"");
        Map<String, String> secret = Map.of("tracing.otlp.endpoint", "http://c", "tracing.otlp.headers", "s3cret");
        assertThatThrownBy(() -> ServiceTraces.of(ServiceConfig.of(secret), Map.of()))
                .hasMessage("config key \"tracing.otlp.headers\": expected name=value,name=value, got an entry without \"=\"")
                .hasMessageNotContaining("s3cret");
        assertThat(ServiceTraces.of(ServiceConfig.of(Map.of()), Map.of()).isOn()).isFalse();
    }
}
