package millrace.streams.tracing;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class OtlpSpansTest {
    private static final TraceContext SAMPLED =
            new TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", 1, "rojo=1");
    private static final SpanFact PROCESS = new SpanFact(
            "process llm.prompts", SpanFact.Kind.CONSUMER, 1_000_000_000L, 3_000_000_000L, Map.of("messaging.kafka.offset", 7L), "");
    private static final SpanFact CHAT = new SpanFact("chat glm", SpanFact.Kind.INTERNAL, 1_500_000_000L, 2_500_000_000L,
            Map.of("gen_ai.request.model", "glm", "gen_ai.response.finish_reasons", new String[] {"stop"}, "temperature", 0.5), "");
    private static final SpanFact SEND = new SpanFact(
            "send llm.completions", SpanFact.Kind.PRODUCER, 3_000_000_000L, 3_000_000_000L, Map.of(), "");

    private static OtlpSpans open(OtlpReceiver receiver, double ratio) {
        return OtlpSpans.open(receiver.endpoint(), Map.of("authorization", "Bearer x"), ratio, Map.of("service.name", "test"));
    }

    @Test
    void sendsSpansOfTheTraceThatAPromptBringsAlong() throws Exception {
        try (OtlpReceiver receiver = new OtlpReceiver()) {
            TraceContext next;
            try (OtlpSpans spans = open(receiver, 0)) {
                next = spans.record(SAMPLED, PROCESS, List.of(CHAT, SEND));
            }
            assertThat(receiver.authorizations).containsOnly("Bearer x");
            assertThat(receiver.spans).extracting(OtlpReceiver.Received::name)
                    .containsExactlyInAnyOrder("process llm.prompts", "chat glm", "send llm.completions");
            OtlpReceiver.Received process = named(receiver, "process llm.prompts");
            OtlpReceiver.Received chat = named(receiver, "chat glm");
            OtlpReceiver.Received send = named(receiver, "send llm.completions");
            assertThat(receiver.spans).allSatisfy(span -> {
                assertThat(span.traceId()).isEqualTo(SAMPLED.traceId());
                assertThat(span.state()).isEqualTo("rojo=1");
                assertThat(span.resource()).containsEntry("service.name", "test");
            });
            assertThat(process.parentId()).isEqualTo(SAMPLED.spanId());
            assertThat(chat.parentId()).isEqualTo(process.spanId());
            assertThat(send.parentId()).isEqualTo(process.spanId());
            assertThat(process.begin()).isEqualTo(1_000_000_000L);
            assertThat(process.end()).isEqualTo(3_000_000_000L);
            assertThat(List.of(process.kind(), chat.kind(), send.kind())).as("consumer, internal, producer").containsExactly(5, 1, 4);
            assertThat(process.attributes()).containsEntry("messaging.kafka.offset", "7");
            assertThat(chat.attributes()).containsEntry("gen_ai.response.finish_reasons", "stop").containsEntry("temperature", "0.5");
            assertThat(next).isEqualTo(new TraceContext(SAMPLED.traceId(), send.spanId(), 1, "rojo=1"));
        }
    }

    @Test
    void followsTheFlagOfWhoeverBeganTheTrace() throws Exception {
        try (OtlpReceiver receiver = new OtlpReceiver()) {
            TraceContext unrecorded = new TraceContext(SAMPLED.traceId(), SAMPLED.spanId(), 0, "");
            TraceContext next;
            TraceContext begun;
            try (OtlpSpans spans = open(receiver, 1)) {
                next = spans.record(unrecorded, PROCESS, List.of(SEND));
                begun = spans.record(null, CHAT, List.of());
            }
            assertThat(next.traceId()).isEqualTo(SAMPLED.traceId());
            assertThat(next.isSampled()).isFalse();
            assertThat(begun.isSampled()).isTrue();
            assertThat(receiver.spans).singleElement().satisfies(span -> {
                assertThat(span.traceId()).isEqualTo(begun.traceId());
                assertThat(span.parentId()).isEmpty();
            });
        }
    }

    @Test
    void tellsOfFailuresByTheirCode() throws Exception {
        try (OtlpReceiver receiver = new OtlpReceiver()) {
            try (OtlpSpans spans = open(receiver, 1)) {
                spans.record(null, new SpanFact("x", SpanFact.Kind.INTERNAL, 1, 2, Map.of(), "PARAM_RANGE"), List.of());
            }
            assertThat(receiver.spans).singleElement().satisfies(span -> assertThat(span.status()).isEqualTo(2));
        }
    }

    /// A collector that is away costs spans and nothing else.
    @Test
    void goesOnWithoutACollector() throws Exception {
        String gone;
        try (OtlpReceiver receiver = new OtlpReceiver()) {
            gone = receiver.endpoint();
        }
        try (OtlpSpans spans = OtlpSpans.open(gone, Map.of(), 1, Map.of())) {
            for (int i = 0; i < 100; i++) {
                assertThat(spans.record(SAMPLED, PROCESS, List.of(CHAT, SEND)).traceId()).isEqualTo(SAMPLED.traceId());
            }
        }
    }

    @Test
    void namesWhatIsNoEndpoint() {
        assertThat(OtlpSpans.traces("http://c:4318")).isEqualTo("http://c:4318/v1/traces");
        assertThat(OtlpSpans.traces("https://c/")).isEqualTo("https://c/v1/traces");
        assertThat(OtlpSpans.traces("https://c/otlp/v1/traces")).isEqualTo("https://c/otlp/v1/traces");
        for (String wrong : List.of("localhost:4318", "grpc://c:4317", "http://", "http://a b")) {
            assertThatThrownBy(() -> OtlpSpans.traces(wrong)).as(wrong)
                    .hasMessage("expected http://HOST:PORT or https://HOST:PORT, got \"" + wrong + "\"");
        }
    }

    private static OtlpReceiver.Received named(OtlpReceiver receiver, String name) {
        return receiver.spans.stream().filter(span -> span.name().equals(name)).findFirst().orElseThrow();
    }
}
