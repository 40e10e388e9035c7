package millrace.engine.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import com.fasterxml.jackson.databind.JsonNode;
import java.net.URISyntaxException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.stream.IntStream;
import millrace.engine.CudaConfig;
import millrace.engine.KvFormat;
import millrace.engine.TinyModel;
import millrace.engine.kernel.Backend;
import millrace.engine.kernel.cuda.StandIn;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/// Whole checkpoints against PyTorch: ranks and logits along greedy paths, all logits of a prompt, likelihood of a
/// text.
final class ModelGoldenTest {
    @ParameterizedTest
    @ValueSource(strings = {"glm-tiny", "kimi-tiny", "llama-tiny", "qwen3-tiny"})
    void logitsShouldBeThoseOfTheReference(String name) {
        JsonNode golden = TinyModel.golden("models/" + name);
        try (ModelRun run = ModelRun.open(directory(name), "auto", 2, KvFormat.F32)) {
            for (JsonNode prompt : golden.get("prompts")) {
                checkPath(run, prompt);
            }
            JsonNode full = golden.get("logits");
            float[] logits = run.last(ints(full.get("ids")), 50);
            for (int i = 0; i < logits.length; i++) {
                assertThat(logits[i])
                        .as("logit %d", i)
                        .isCloseTo(full.get("values").get(i).floatValue(), within(2e-4f));
            }
        }
    }

    /// The same ranks on the CUDA backend, whose sums have another order.
    @ParameterizedTest
    @ValueSource(strings = {"glm-tiny", "kimi-tiny", "llama-tiny", "qwen3-tiny"})
    void logitsOnADeviceShouldBeThoseOfTheReference(String name) {
        StandIn.assumePresent();
        JsonNode golden = TinyModel.golden("models/" + name);
        Backend cuda = Backend.open("cuda", 2, CudaConfig.STANDIN.withMemoryBytes(512 << 20));
        try (ModelRun run = ModelRun.open(directory(name), cuda, KvFormat.F32)) {
            for (JsonNode prompt : golden.get("prompts")) {
                checkPath(run, prompt);
            }
        }
    }

    private static void checkPath(ModelRun run, JsonNode prompt) {
        int[] ids = ints(prompt.get("ids"));
        int[] path = ints(prompt.get("path"));
        int steps = prompt.get("top10").size();
        int[] fed = Arrays.copyOf(ids, ids.length + steps - 1);
        System.arraycopy(path, 0, fed, ids.length, steps - 1);
        float[][] all = run.all(fed, 100);
        for (int step = 0; step < steps; step++) {
            float[] logits = all[ids.length - 1 + step];
            int[] expected = ints(prompt.get("top10").get(step).get("ids"));
            assertThat(largest(logits)).as("step %d", step).containsExactly(expected);
            for (int i = 0; i < expected.length; i++) {
                assertThat(logits[expected[i]])
                        .isCloseTo(prompt.get("top10").get(step).get("logits").get(i).floatValue(), within(2e-4f));
            }
        }
    }

    /// Mean of the windows with each format of the cache: the formats may cost what their documentation says.
    @ParameterizedTest
    @CsvSource({"glm-tiny, 0.0005, 0.003, 0.02", "kimi-tiny, 0.001, 0.005, 0.01"})
    void likelihoodShouldHoldInEveryCacheFormat(String name, double bf16, double int8, double coarse) {
        JsonNode nll = TinyModel.golden("models/" + name).get("nll");
        int[] ids = ints(nll.get("ids"));
        int window = nll.get("window").intValue();
        List<KvFormat> formats = KvFormat.of(name.startsWith("glm") ? KvFormat.Kind.GROUPED : KvFormat.Kind.LATENT, 64);
        for (KvFormat format : formats) {
            double tolerance = switch (format) {
                case F32 -> 1e-4;
                case BF16 -> bf16;
                case INT8, FP8 -> int8;
                case INT4, FP8_PLAIN -> coarse;
            };
            try (ModelRun run = ModelRun.open(directory(name), "auto", 2, format)) {
                double mean = 0;
                double expected = 0;
                for (int w = 0; w < nll.get("sums").size(); w++) {
                    int[] text = Arrays.copyOfRange(ids, w * window, (w + 1) * window);
                    mean += negativeLogLikelihood(run.all(text, 128), text) / nll.get("sums").size() / (window - 1);
                    expected += nll.get("sums").get(w).doubleValue() / nll.get("sums").size() / (window - 1);
                }
                assertThat(mean).as("%s", format).isCloseTo(expected, within(tolerance));
            }
        }
    }

    private static double negativeLogLikelihood(float[][] logits, int[] ids) {
        double sum = 0;
        for (int i = 1; i < ids.length; i++) {
            double max = Double.NEGATIVE_INFINITY;
            for (float logit : logits[i - 1]) {
                max = Math.max(max, logit);
            }
            double exps = 0;
            for (float logit : logits[i - 1]) {
                exps += Math.exp(logit - max);
            }
            sum += max + Math.log(exps) - logits[i - 1][ids[i]];
        }
        return sum;
    }

    private static int[] largest(float[] logits) {
        return IntStream.range(0, logits.length)
                .boxed()
                .sorted(Comparator.comparingDouble(i -> -logits[i]))
                .mapToInt(Integer::intValue)
                .limit(10)
                .toArray();
    }

    private static int[] ints(JsonNode node) {
        return IntStream.range(0, node.size()).map(i -> node.get(i).intValue()).toArray();
    }

    /// The demo models are resources of the module that serves them; the random ones are here.
    private static Path directory(String name) {
        if (name.equals("glm-tiny") || name.equals("kimi-tiny")) {
            return Path.of("../streams/src/main/resources/models", name);
        }
        try {
            return Path.of(Objects.requireNonNull(ModelGoldenTest.class.getResource("/models/" + name + "/config.json"))
                            .toURI())
                    .getParent();
        } catch (URISyntaxException e) {
            throw new IllegalStateException(e);
        }
    }
}
