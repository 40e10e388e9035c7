package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import millrace.streams.bench.NoOpEngine;
import millrace.streams.cli.Main;
import millrace.streams.embedded.EmbeddedCluster;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.CleanupMode;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import picocli.CommandLine;

/// `millrace batch` as a user runs it, on a real broker, with an engine that answers with the prompt's own text.
@Timeout(value = 3, unit = TimeUnit.MINUTES)
class BatchIT {
    private static final Logger LOG = LoggerFactory.getLogger(BatchIT.class);
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int LINES = 1_000;

    @TempDir(cleanup = CleanupMode.ON_SUCCESS)
    private static Path directory;

    private static EmbeddedCluster cluster;

    /// What a command did.
    private record Ran(int code, String out, String err) {}

    @BeforeAll
    static void start() {
        cluster = EmbeddedCluster.ephemeral();
    }

    /// Topics and group of one test's own.
    private static ServiceConfig config(String scene) {
        Map<String, String> settings = new HashMap<>(cluster.serviceConfig());
        settings.putAll(Map.of("application.id", scene, "state.dir", directory.resolve("state-" + scene).toString(), "topics.partitions", "3",
                "health.port", "-1"));
        settings.putAll(OwnTopics.of(scene));
        return ServiceConfig.of(settings);
    }

    @AfterAll
    static void stop() {
        cluster.close();
    }

    private static InferenceService service(ServiceConfig config) {
        return InferenceService.start(config, c -> new NoOpEngine(), true, line -> {});
    }

    private static List<String> arguments(String scene, String name, String... arguments) {
        List<String> all = new ArrayList<>(List.of("batch", name));
        all.addAll(List.of(arguments));
        OwnTopics.of(scene).forEach((key, value) -> all.addAll(List.of("-D", key + "=" + value)));
        all.addAll(List.of("--state", directory.resolve(scene).toString(), "-b", cluster.bootstrap(), "--registry", cluster.registryUrl()));
        return all;
    }

    private static Ran run(String scene, String name, String... arguments) {
        StringWriter out = new StringWriter();
        StringWriter err = new StringWriter();
        CommandLine line = Main.commandLine().setOut(new PrintWriter(out)).setErr(new PrintWriter(err));
        int code = line.execute(arguments(scene, name, arguments).toArray(String[]::new));
        return new Ran(code, out.toString().strip(), err.toString());
    }

    /// The same in a process that may be killed.
    private static Process spawn(Path log, String scene, String name, String... arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                "-cp", System.getProperty("java.class.path"), "millrace.streams.cli.Main"));
        command.addAll(arguments(scene, name, arguments));
        return new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(ProcessBuilder.Redirect.appendTo(log.toFile())).start();
    }

    private static String line(String id, String question) {
        ObjectNode line = JSON.createObjectNode().put("custom_id", id).put("method", "POST").put("url", "/v1/chat/completions");
        line.putObject("body").put("model", "no-op").put("temperature", 0).putArray("messages").addObject().put("role", "user").put("content", question);
        return line.toString();
    }

    private static Path file(String name, List<String> lines) throws IOException {
        return Files.write(directory.resolve(name), lines);
    }

    private static List<JsonNode> read(Path file) throws IOException {
        List<JsonNode> lines = new ArrayList<>();
        try (Stream<String> all = Files.lines(file)) {
            for (String line : all.toList()) {
                lines.add(JSON.readTree(line));
            }
        }
        return lines;
    }

    private static long records(ServiceConfig config, KafkaConsumer<byte[], byte[]> reader, String topic) {
        List<TopicPartition> all = reader.partitionsFor(config.string(topic)).stream()
                .map(p -> new TopicPartition(p.topic(), p.partition())).toList();
        return reader.endOffsets(all).values().stream().mapToLong(Long::longValue).sum();
    }

    @Test
    void aThousandLinesAreAnsweredOnceEachThoughItIsKilledAgainAndAgain() throws Exception {
        long seed = Long.getLong("millrace.test.seed", System.nanoTime());
        SplittableRandom random = new SplittableRandom(seed);
        ServiceConfig config = config("killed");
        List<String> lines = new ArrayList<>();
        for (int i = 0; i < LINES; i++) {
            lines.add(line("line-" + i, "question " + i));
        }
        Path input = file("thousand.jsonl", lines);
        Path log = directory.resolve("killed.log");
        Path output = directory.resolve("thousand.out");
        try (InferenceService _ = service(config); ClusterClient client = new ClusterClient(config);
                KafkaConsumer<byte[], byte[]> reader = new KafkaClients(config).reader()) {
            long began = System.nanoTime();
            // The third ends by itself.
            for (int life = 0; life < 2; life++) {
                killAt(spawn(log, "killed", "submit", input.toString()), log, () -> records(config, reader, "topics.prompts"),
                        random.nextInt(LINES * life / 2 + 1, LINES * (life + 1) / 2));
            }
            Ran submitted = run("killed", "submit", input.toString());
            assertThat(submitted.code()).as("seed %d: %s", seed, submitted.err()).isZero();
            String id = submitted.out();
            assertThat(submitted.err()).contains("the same file as " + id);
            killAt(spawn(log, "killed", "fetch", id, "--output", output.toString(), "--wait"), log,
                    () -> size(directory.resolve("killed").resolve(id).resolve("answers.jsonl")), 1);
            Ran fetched = run("killed", "fetch", id, "--output", output.toString(), "--wait");
            assertThat(fetched.code()).as("seed %d: %s", seed, fetched.err()).isZero();
            LOG.info("seed {}: 1,000 lines, three processes killed: {} ms", seed, (System.nanoTime() - began) / 1_000_000);

            List<JsonNode> results = read(output);
            assertThat(results).extracting(result -> result.get("custom_id").asText())
                    .as("each line once, in order").containsExactlyElementsOf(Stream.iterate(0, i -> i + 1).limit(LINES).map(i -> "line-" + i).toList());
            for (int i = 0; i < LINES; i++) {
                JsonNode body = results.get(i).get("response").get("body");
                assertThat(body.get("choices").get(0).get("message").get("content").asText()).isEqualTo("question " + i);
                assertThat(body.get("millrace").get("choices").get(0).get("audit").get("leaf").asText()).hasSize(64);
            }
            client.assertExactlyOnce(Stream.iterate(1, i -> i + 1).limit(LINES).map(i -> id + "." + i).toList());
            assertThat(run("killed", "submit", input.toString()).out()).as("nothing is sent again").isEqualTo(id);
            assertThat(run("killed", "status", id).out()).contains("completed: 1,000 of 1,000 lines done");
        }
    }

    private static String bad(String id, String rest) {
        return "{\"custom_id\":\"" + id + "\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\"," + rest + "}";
    }

    @Test
    void badLinesHaveTheirReasonAndDoNotStopTheOthers() throws Exception {
        String hello = "\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]";
        Path input = file("bad.jsonl", List.of(
                line("first", "one"),
                "this is no JSON",
                "",
                line("first", "a repeated id"),
                bad("put", "\"body\":{}").replace("POST", "PUT"),
                bad("url", "\"body\":{}").replace("/chat", "/images"),
                "{\"method\":\"POST\"}",
                bad("field", "\"body\":{" + hello + ",\"frobnicate\":1}"),
                bad("stream", "\"body\":{" + hello + ",\"stream\":true}"),
                bad("model", "\"body\":{" + hello + ",\"model\":\"another\"}"),
                bad("three", "\"body\":{" + hello + ",\"n\":3,\"seed\":5}"),
                line("last", "two")));
        Path output = directory.resolve("bad.out");
        Path errors = directory.resolve("bad.err");
        try (InferenceService _ = service(config("bad"))) {
            Ran submitted = run("bad", "submit", input.toString(), "--wait", "--max-in-flight", "2");
            assertThat(submitted.code()).as(submitted.err()).isZero();
            Ran fetched = run("bad", "fetch", submitted.out(), "--output", output.toString(), "--errors", errors.toString());
            assertThat(fetched.err()).contains("3 answers and 8 errors written");
        }
        List<JsonNode> results = read(output);
        assertThat(results).extracting(result -> result.get("custom_id").asText()).containsExactly("first", "three", "last");
        JsonNode three = results.get(1).at("/response/body");
        assertThat(three.get("choices")).extracting(choice -> choice.get("index").asInt()).containsExactly(0, 1, 2);
        assertThat(three.at("/millrace/choices")).extracting(choice -> choice.get("seed").asLong()).containsExactly(5L, 6L, 7L);
        assertThat(three.at("/usage/completion_tokens").asInt()).isEqualTo(3);
        assertThat(read(errors)).extracting(error -> error.at("/response/body/error/line").asInt() + " " + error.at("/response/status_code").asInt()
                + " " + error.at("/response/body/error/code").asText()).containsExactly(
                "2 400 invalid_json", "4 400 duplicate_custom_id", "5 400 invalid_method", "6 400 mismatched_url",
                "7 400 missing_required_parameter", "8 400 unknown_parameter", "9 400 unsupported_parameter", "10 404 model_not_found");
        assertThat(read(errors).get(1).at("/response/body/error/message").asText()).contains("got that of line 1");
    }

    @Test
    void aBatchThatEndsEarlyGivesWhatThereIsAndSaysOfTheRestWhy() throws Exception {
        ServiceConfig config = config("early");
        Path input = file("early.jsonl", List.of(line("a", "one"), line("b", "two")));
        try (Admin admin = new KafkaClients(config).admin()) {
            new Topics(config).ensure(admin);
        }
        // Nobody serves.
        String expiring = run("early", "submit", input.toString(), "--expires", "1s").out();
        String cancelled = run("early", "submit", input.toString(), "--new").out();
        Path output = directory.resolve("early.out");
        assertThat(run("early", "fetch", cancelled, "--output", output.toString()).code()).as("not settled").isEqualTo(1);
        assertThat(output).doesNotExist();
        assertThat(run("early", "fetch", cancelled, "--output", output.toString(), "--partial").code()).isZero();
        assertThat(read(output)).isEmpty();
        assertThat(run("early", "cancel", cancelled).out()).contains("cancelled: 2 of 2 lines done, 2 of them failed");
        for (Map.Entry<String, String> end : Map.of(expiring, "batch_expired", cancelled, "batch_cancelled").entrySet()) {
            assertThat(run("early", "fetch", end.getKey(), "--output", output.toString(), "--wait").code()).isZero();
            assertThat(read(output)).extracting(line -> line.get("custom_id").asText() + " " + line.at("/error/code").asText())
                    .containsExactly("a " + end.getValue(), "b " + end.getValue());
        }
        assertThat(run("early", "list").out()).contains(expiring + "  expired", cancelled + "  cancelled");
        assertThat(run("early", "status", "batch_none").err()).contains("BATCH_UNKNOWN");
    }

    private interface Measure {
        long now() throws IOException;
    }

    private static long size(Path file) throws IOException {
        return Files.exists(file) ? Files.size(file) : 0;
    }

    private static void killAt(Process process, Path log, Measure measure, long most) throws Exception {
        long until = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        while (process.isAlive() && measure.now() < most) {
            assertThat(System.nanoTime()).as(() -> "waited for " + most + ": " + tail(log)).isLessThan(until);
            Thread.sleep(1);
        }
        process.destroyForcibly().waitFor();
    }

    private static String tail(Path log) {
        try {
            return Files.readString(log);
        } catch (IOException e) {
            return e.toString();
        }
    }
}
