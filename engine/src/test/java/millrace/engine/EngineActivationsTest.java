package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(60)
class EngineActivationsTest {
    @TempDir
    Path dir;

    @Test
    void areTheSameAloneAndTogetherAndAbsentUnlessAsked() throws IOException {
        Path model = TinyModel.of("glm4_moe").withTokenizer().write(dir);
        IntegrityConfig plain = IntegrityConfig.OFF;
        IntegrityConfig kept = new IntegrityConfig(
                plain.profile(), plain.scrubInterval(), plain.scrubShare(), plain.kvMaxAge(), plain.canaryInterval(), 0, true);
        EngineConfig config = EngineConfig.of(model).withBackend("scalar").withThreads(1).withKvBytes(1 << 22);
        List<String> alone = new ArrayList<>();
        try (Engine engine = Engine.openForIds(config.withIntegrity(kept))) {
            for (int i = 0; i < 4; i++) {
                alone.addAll(run(engine, i, 1));
            }
            assertThat(run(engine, 0, 4)).isEqualTo(alone);
        }
        // 70 tokens: two runs of 32, and one of the rest.
        assertThat(alone).doesNotHaveDuplicates().allMatch(runs -> runs.split(";").length == 3);
        try (Engine engine = Engine.openForIds(config.withIntegrity(plain))) {
            assertThat(run(engine, 0, 1)).containsExactly("");
        }
    }

    private static List<String> run(Engine engine, int first, int count) {
        List<CompletableFuture<GenerationResult>> ends = new ArrayList<>();
        for (int i = first; i < first + count; i++) {
            int seed = i;
            var ids = new PromptInput.TokenIds(IntStream.range(0, 9).mapToObj(k -> 1 + (k * 5 + seed * 11) % 50).toList());
            var end = new CompletableFuture<GenerationResult>();
            ends.add(end);
            engine.submit(engine.prepare(GenerationRequest.greedy("r-" + i, ids, 70)), end::complete);
        }
        return ends.stream().map(end -> shown(end.join().transcript().activations())).toList();
    }

    private static String shown(List<ActivationTop> tops) {
        return String.join(";", tops.stream().map(t -> Arrays.toString(t.indices()) + Arrays.toString(t.bits())).toList());
    }
}
