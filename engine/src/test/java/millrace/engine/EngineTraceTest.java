package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// An answer that is followed meets at each step what its generation met.
@Timeout(120)
class EngineTraceTest {
    private static final int TOKENS = 70;

    @TempDir
    Path dir;

    private Engine open(int chunk, long kvBytes) throws Exception {
        Path model = TinyModel.of("glm4_moe").withTokenizer().write(Files.createDirectories(dir.resolve("m" + chunk)));
        IntegrityConfig checks = IntegrityConfig.DEFAULT;
        return Engine.openForIds(EngineConfig.of(model).withBackend("scalar").withThreads(1).withKvBytes(kvBytes)
                .withPrefillChunk(chunk).withIntegrity(new IntegrityConfig(checks.profile(), checks.scrubInterval(), checks.scrubShare(),
                        checks.kvMaxAge(), checks.canaryInterval(), 0, true)));
    }

    private static PreparedPrompt prompt(Engine engine, Sampling sampling, int maxTokens) {
        var ids = new PromptInput.TokenIds(IntStream.range(0, 9).mapToObj(k -> 1 + k * 5 % 50).toList());
        GenerationRequest greedy = GenerationRequest.greedy("r", ids, maxTokens);
        return engine.prepare(new GenerationRequest(greedy.id(), greedy.input(), sampling, maxTokens, greedy.stop(),
                greedy.deadlineMs(), greedy.priority(), greedy.cacheSalt()));
    }

    private static GenerationResult generate(Engine engine, PreparedPrompt prompt) {
        var end = new CompletableFuture<GenerationResult>();
        engine.submit(prompt, end::complete);
        return end.join();
    }

    private static Trace trace(Engine engine, PreparedPrompt prompt, List<Integer> answer) {
        var end = new CompletableFuture<Trace>();
        engine.trace(prompt, answer, end::complete);
        return end.join();
    }

    private static String shown(List<ActivationTop> tops) {
        return String.join(";", tops.stream().map(t -> Arrays.toString(t.indices()) + Arrays.toString(t.bits())).toList());
    }

    @Test
    void findsNothingInAnAnswerOfItsOwn() throws Exception {
        List<Sampling> samplings = List.of(Sampling.GREEDY, new Sampling(1.3f, 0.9f, 20, 0.01f, 1.2f, 99));
        for (int chunk : new int[] {256, 5}) {
            // With the smaller cache a trace of 79 tokens and another one do not fit together.
            try (Engine engine = open(chunk, chunk == 5 ? 1 << 16 : 1 << 22)) {
                for (Sampling sampling : samplings) {
                    PreparedPrompt prompt = prompt(engine, sampling, TOKENS);
                    GenerationResult generated = generate(engine, prompt);
                    Trace trace = trace(engine, prompt, generated.tokenIds());
                    assertThat(trace.departures()).isEmpty();
                    assertThat(trace.steps()).isEqualTo(generated.tokenIds().size());
                    assertThat(trace.text()).isEqualTo(generated.text());
                    assertThat(trace.reason()).isEqualTo(generated.reason());
                    assertThat(shown(trace.activations())).isNotEmpty().isEqualTo(shown(generated.transcript().activations()));
                    var together = IntStream.range(0, 5).mapToObj(i -> {
                        var end = new CompletableFuture<Trace>();
                        engine.trace(prompt, generated.tokenIds(), end::complete);
                        return end;
                    }).toList();
                    together.forEach(end -> assertThat(shown(end.join().activations())).isEqualTo(shown(trace.activations())));
                }
            }
        }
    }

    @Test
    void namesEachStepAtWhichAnotherTokenWasTaken() throws Exception {
        try (Engine engine = open(256, 1 << 22)) {
            PreparedPrompt prompt = prompt(engine, Sampling.GREEDY, TOKENS);
            List<Integer> answer = new ArrayList<>(generate(engine, prompt).tokenIds());
            int honest = answer.get(4);
            answer.set(4, honest ^ 1);
            Trace trace = trace(engine, prompt, answer);
            Trace.Departure first = trace.departures().getFirst();
            assertThat(first.step()).isEqualTo(4);
            assertThat(first.taken()).isEqualTo(honest ^ 1);
            assertThat(first.chosen()).isEqualTo(honest);
            assertThat(first.gap()).isGreaterThan(0);
            assertThat(first.scale()).isGreaterThanOrEqualTo(first.gap() / 2);
            List<Integer> shorter = answer.subList(0, 4);
            Trace cut = trace(engine, prompt, shorter);
            assertThat(cut.departures()).isEmpty();
            assertThat(cut.reason()).as("more would have come").isEqualTo(FinishReason.DEADLINE);
            Trace full = trace(engine, prompt(engine, Sampling.GREEDY, 4), shorter);
            assertThat(full.reason()).isEqualTo(FinishReason.LENGTH);
        }
    }

    @Test
    void refusesTokensThatTheModelLacks() throws Exception {
        try (Engine engine = open(256, 1 << 22)) {
            PreparedPrompt prompt = prompt(engine, Sampling.GREEDY, TOKENS);
            assertThatThrownBy(() -> engine.trace(prompt, List.of(1, 1 << 20), trace -> { }))
                    .isInstanceOf(InvalidRequestException.class).hasMessageContaining("token id 1: expected 0 to ");
            assertThatThrownBy(() -> engine.trace(prompt, List.of(), trace -> { }))
                    .isInstanceOf(InvalidRequestException.class);
        }
    }
}
