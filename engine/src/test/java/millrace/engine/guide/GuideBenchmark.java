package millrace.engine.guide;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import millrace.engine.ResponseFormat;
import millrace.engine.tokenizer.Reasoning;
import millrace.engine.tokenizer.Tokenizer;
import millrace.engine.tokenizer.Tokenizers;

/// What a mask costs, token by token along documents that a tokenizer has split.
///
/// ```
/// java --add-modules jdk.incubator.vector -cp … millrace.engine.guide.GuideBenchmark DIRECTORY [rounds]
/// ```
///
/// The directory has a checkpoint's `tokenizer.json` or `tiktoken.model`. Prints for each form microseconds a token, of the first
/// document (masks are made) and of later ones (masks are kept), the mask alone and with the logits written.
public final class GuideBenchmark {
    private static final String PERSON = """
            {"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150},
            "email":{"type":"string","maxLength":60},"tags":{"type":"array","items":{"type":"string"},"maxItems":8},
            "kind":{"enum":["customer","supplier","employee"]},"address":{"anyOf":[{"$ref":"#/$defs/a"},{"type":"null"}]}},
            "required":["name","age","tags","kind","address"],"additionalProperties":false,
            "$defs":{"a":{"type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"},
            "zip":{"type":"string","minLength":5,"maxLength":5}},"required":["street","city","zip"],"additionalProperties":false}}}""";
    private static final String DOCUMENT = """
            {"name": "Maria Müller-Lüdenscheidt", "age": 42, "email": "maria.mueller@example.org", "tags": ["first tag", "second", \
            "a longer one with several words in it"], "kind": "supplier", "address": {"street": "An der Alten Brücke 17", "city": "Überlingen", "zip": "88662"}}""";

    private GuideBenchmark() {}

    public static void main(String[] args) throws Exception {
        Path directory = Path.of(args[0]);
        int rounds = args.length > 1 ? Integer.parseInt(args[1]) : 50;
        Tokenizer tokenizer = Tokenizers.load(name -> {
            try {
                Path file = directory.resolve(name);
                return Files.exists(file) ? Files.readAllBytes(file) : null;
            } catch (java.io.IOException e) {
                throw new java.io.UncheckedIOException(e);
            }
        });
        int vocabulary = tokenizer.vocabSize();
        long begun = System.nanoTime();
        GuideTokens tokens = new GuideTokens(tokenizer, vocabulary, Set.of(), null);
        double made = (System.nanoTime() - begun) / 1e6;
        Runtime runtime = Runtime.getRuntime();
        System.gc();
        long with = runtime.totalMemory() - runtime.freeMemory();
        int nodes = tokens.trie().nodes();
        tokens = null;
        System.gc();
        System.out.printf(Locale.ROOT, "%d tokens, tree of %d nodes, %.1f MiB in all, made in %.0f ms%n", vocabulary, nodes,
                (with - runtime.totalMemory() + runtime.freeMemory()) / 1048576.0, made);
        Map<String, ResponseFormat> formats = new LinkedHashMap<>();
        formats.put("json_object", new ResponseFormat.JsonObject());
        formats.put("schema", new ResponseFormat.JsonSchema(PERSON));
        int[] ids = tokenizer.encode(DOCUMENT, false);
        float[] logits = new float[vocabulary];
        SplittableRandom random = new SplittableRandom(1);
        for (int i = 0; i < logits.length; i++) {
            logits[i] = (float) random.nextDouble(-10, 10);
        }
        JsonNode parsed = new JsonMapper().readTree(DOCUMENT);
        System.out.printf("a document of %d members, %d tokens%n", parsed.size(), ids.length);
        for (var format : formats.entrySet()) {
            GuideEngine engine = new GuideEngine(tokenizer, vocabulary, Set.of(), null);
            long read = System.nanoTime();
            Guide guide = engine.guide(format.getValue());
            read = System.nanoTime() - read;
            walk(engine, guide, ids, null);
            engine = new GuideEngine(tokenizer, vocabulary, Set.of(), null);
            guide = engine.guide(format.getValue());
            double[] first = walk(engine, guide, ids, null);
            List<Double> mask = new ArrayList<>();
            List<Double> written = new ArrayList<>();
            for (int round = 0; round < rounds; round++) {
                Arrays.stream(walk(engine, guide, ids, null)).forEach(mask::add);
                Arrays.stream(walk(engine, guide, ids, logits)).forEach(written::add);
            }
            System.out.printf(Locale.ROOT, "%-12s first document: mean %.0f, most %.0f µs; then: %s; with logits: %s; %d masks kept%n",
                    format.getKey(), Arrays.stream(first).average().orElse(0), Arrays.stream(first).max().orElse(0), shown(mask),
                    shown(written), engine.masks());
        }
    }

    private static String shown(List<Double> micros) {
        double[] sorted = micros.stream().mapToDouble(Double::doubleValue).sorted().toArray();
        return String.format(Locale.ROOT, "mean %.1f, median %.1f, p99 %.1f µs", Arrays.stream(sorted).average().orElse(0),
                sorted[sorted.length / 2], sorted[sorted.length * 99 / 100]);
    }

    private static double[] walk(GuideEngine engine, Guide guide, int[] ids, float[] logits) {
        GuideRun run = engine.start(guide, Reasoning.NONE);
        double[] micros = new double[ids.length];
        for (int i = 0; i < ids.length; i++) {
            long begun = System.nanoTime();
            if (logits == null) {
                run.allowed();
            } else {
                run.masked(logits, 0);
            }
            boolean taken = run.advance(ids[i]);
            micros[i] = (System.nanoTime() - begun) / 1e3;
            if (!taken) {
                throw new IllegalStateException("token " + i + " of the document is not allowed");
            }
        }
        return micros;
    }
}
