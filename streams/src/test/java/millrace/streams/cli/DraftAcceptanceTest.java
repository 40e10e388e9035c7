package millrace.streams.cli;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.core.JsonProcessingException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import millrace.engine.ChatMessage;
import millrace.engine.ChatOptions;
import millrace.engine.DraftStats;
import millrace.engine.Engine;
import millrace.engine.EngineConfig;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.PromptInput;
import millrace.engine.Speculation;
import millrace.streams.Models;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// What a draft layer that was really trained is worth, on prompts that it was not trained on: docs/training tells how.
@Timeout(180)
class DraftAcceptanceTest {
    private static final int PROMPT = 96;

    @TempDir
    Path dir;

    @Test
    void mostFirstDraftsOfAnswersAreRight() {
        check(100, DraftAcceptanceTest::questions, 0.60, 0.40);
    }

    @Test
    void manyFirstDraftsOfTextAreRight() {
        check(20, DraftAcceptanceTest::texts, 0.40, 0.15);
    }

    private interface Prompts {
        List<GenerationRequest> of(Engine engine, int count);
    }

    /// @param first least share of steps in which the first draft was right
    /// @param second least share in which the second was as well
    private void check(int count, Prompts prompts, double first, double second) {
        EngineConfig config = EngineConfig.of(Models.directory("glm-tiny-mtp", dir)).withThreads(2);
        try (Engine plain = Engine.open(config.withSpeculation(Speculation.OFF));
                Engine drafting = Engine.open(config.withSpeculation(new Speculation(Speculation.Mode.MTP, 2)))) {
            List<List<Integer>> expected = answers(plain, prompts.of(plain, count));
            assertThat(answers(drafting, prompts.of(drafting, count))).isEqualTo(expected);
            DraftStats drafts = drafting.stats().drafts();
            assertThat(share(drafts, 0)).as("%s", drafts).isGreaterThan(first);
            assertThat(share(drafts, 1)).as("%s", drafts).isGreaterThan(second);
            assertThat(drafting.stats().steps()).isLessThan(plain.stats().steps());
        }
    }

    private static double share(DraftStats drafts, int position) {
        return (double) drafts.accepted().get(position) / drafts.drafted().get(position);
    }

    private static List<GenerationRequest> questions(Engine engine, int count) {
        List<String> lines = Models.questions("glm-tiny-mtp");
        List<GenerationRequest> requests = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            var asked = new PromptInput.Messages(
                    List.of(ChatMessage.of("user", prompt(lines.get(i * lines.size() / count)))), ChatOptions.DEFAULT);
            requests.add(GenerationRequest.greedy("question " + i, asked, 24));
        }
        return requests;
    }

    private static String prompt(String line) {
        try {
            return JsonLines.mapper().readTree(line).get("prompt").asText();
        } catch (JsonProcessingException e) {
            throw new IllegalStateException(e);
        }
    }

    private static List<GenerationRequest> texts(Engine engine, int count) {
        int[] ids = engine.codec().encode(Models.text("glm-tiny-mtp"), false);
        List<GenerationRequest> requests = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            int[] window = Arrays.copyOfRange(ids, i * PROMPT, (i + 1) * PROMPT);
            requests.add(GenerationRequest.greedy(
                    "text " + i, new PromptInput.TokenIds(Arrays.stream(window).boxed().toList()), 64));
        }
        return requests;
    }

    private static List<List<Integer>> answers(Engine engine, List<GenerationRequest> requests) {
        List<List<Integer>> answers = new ArrayList<>();
        for (GenerationRequest request : requests) {
            var end = new CompletableFuture<GenerationResult>();
            engine.submit(engine.prepare(request), end::complete);
            answers.add(end.join().tokenIds());
        }
        return answers;
    }
}
