package millrace.streams.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Stream;
import millrace.engine.DeveloperModels;
import millrace.engine.KvFormat;
import millrace.streams.Models;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

@Timeout(120)
class OfflineToolsTest {
    private static final ObjectMapper JSON = new ObjectMapper();

    @TempDir
    static Path models;

    @TempDir
    Path dir;

    private final StringWriter out = new StringWriter();
    private final StringWriter err = new StringWriter();

    @BeforeAll
    static void unpack() {
        Models.bundled().forEach(model -> Models.directory(model, models));
    }

    // -------------------------------------------------------------------------------------------------- goldens

    @ParameterizedTest
    @ValueSource(strings = {"glm-tiny", "kimi-tiny"})
    void generateCompletesConversationsAsTheReferenceDoes(String model) throws IOException {
        List<JsonNode> goldens = goldens(model);
        List<JsonNode> results = lines("generate", model, goldens.stream().map(golden -> {
            ObjectNode line = JSON.createObjectNode();
            line.set("id", golden.get("id"));
            line.set("messages", golden.get("messages"));
            return line.put("max_tokens", 32);
        }), 0, "--kv", "f32");
        for (int i = 0; i < goldens.size(); i++) {
            JsonNode golden = goldens.get(i);
            JsonNode result = results.get(i);
            assertThat(result.get("id")).isEqualTo(golden.get("id"));
            assertThat(result.get("ids")).as(golden.get("id").asText()).isEqualTo(golden.get("completion_ids"));
            assertThat(result.get("text")).isEqualTo(golden.get("completion_text"));
            assertThat(result.get("finish_reason")).isEqualTo(golden.get("finish"));
            assertThat(result.at("/usage/prompt_tokens").asInt()).isEqualTo(golden.get("prompt_ids").size());
            assertThat(result.at("/usage/completion_tokens").asInt()).isEqualTo(golden.get("completion_ids").size());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"glm-tiny", "kimi-tiny"})
    void logitsAreThoseOfTheReference(String model) throws IOException {
        List<JsonNode> goldens = goldens(model);
        List<JsonNode> results = lines("logits", model, goldens.stream().map(golden -> {
            ObjectNode line = JSON.createObjectNode();
            line.set("id", golden.get("id"));
            line.set("ids", golden.get("prompt_ids"));
            return line;
        }), 0, "--kv", "f32", "--top", "10");
        for (int i = 0; i < goldens.size(); i++) {
            JsonNode expected = goldens.get(i).get("top10").get(0);
            JsonNode top = results.get(i).get("top");
            assertThat(top).hasSize(10);
            for (int k = 0; k < 10; k++) {
                assertThat(top.get(k).get(0)).isEqualTo(expected.get(k).get(0));
                assertThat(top.get(k).get(1).asDouble()).isCloseTo(expected.get(k).get(1).asDouble(), within(1e-3));
            }
        }
    }

    @Test
    void draftLayersAreListenedToAndChangeNoAnswer() throws IOException {
        String model = dir.resolve("sparse").toString();
        DeveloperModels.writeRandom(Path.of(model), 3, DeveloperModels.RandomSpec.parse("random:glm_moe_dsa:400k"));
        String ids = "{\"id\":1,\"ids\":[5,6,7,8,9]}\n";
        List<JsonNode> drafts = lines("logits", model, ids + "{\"id\":2,\"ids\":[5]}\n", 1, "--mtp", "--positions", "--top", "2");
        assertThat(drafts.getFirst().get("rows")).hasSize(4).allSatisfy(row -> assertThat(row.get("top")).hasSize(2));
        assertThat(drafts.getFirst().at("/rows/3/position").asInt()).isEqualTo(3);
        assertThat(drafts.getLast().at("/error/code").asText()).isEqualTo("PROMPT_EMPTY");
        JsonNode last = lines("logits", model, ids, 0, "--mtp", "--top", "2").getFirst();
        assertThat(last.get("top")).isEqualTo(drafts.getFirst().at("/rows/3/top"));
        assertThat(lines("logits", model, ids, 0, "--positions").getFirst().get("rows")).hasSize(5);

        String prompts = "{\"id\":1,\"ids\":[5,6,7,8],\"max_tokens\":24}\n{\"id\":2,\"ids\":[9,8,7],\"max_tokens\":24,\"temperature\":0.8,\"seed\":7}\n";
        List<JsonNode> off = lines("generate", model, prompts, 0, "--kv-index", "bf16");
        assertThat(lines("generate", model, prompts, 0, "--kv-index", "bf16", "--speculation", "mtp:3"))
                .extracting(result -> result.get("ids")).isEqualTo(off.stream().map(result -> result.get("ids")).toList());
        // From a file: standard input belongs to whoever runs the tests.
        String some = Files.writeString(dir.resolve("some.jsonl"), ids).toString();
        assertThat(run("logits", "--model", model("glm-tiny"), "--input", some, "--output", dir.resolve("none").toString(), "--mtp"))
                .isOne();
        assertThat(err.toString()).contains("SPECULATION_UNAVAILABLE");
    }

    @ParameterizedTest
    @ValueSource(strings = {"glm-tiny", "kimi-tiny"})
    void tokenizeRendersConversationsAndDecodesThem(String model) throws IOException {
        List<JsonNode> goldens = goldens(model);
        List<JsonNode> results = lines("tokenize", model, goldens.stream().map(golden -> {
            ObjectNode line = JSON.createObjectNode();
            line.set("messages", golden.get("messages"));
            return line;
        }), 0);
        for (int i = 0; i < goldens.size(); i++) {
            assertThat(results.get(i).get("ids")).isEqualTo(goldens.get(i).get("prompt_ids"));
        }
        List<JsonNode> texts = lines("tokenize", model, results.stream(), 0, "--decode");
        for (int i = 0; i < goldens.size(); i++) {
            assertThat(texts.get(i).get("text")).isEqualTo(results.get(i).get("prompt"));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"glm-tiny", "kimi-tiny"})
    void evalMeasuresAnswersAndPerplexity(String model) throws IOException {
        JsonNode text = resource(model + "-text.json");
        Path tokens = Files.writeString(dir.resolve("tokens.json"), text.get("ids").toString());
        Path questions = Files.write(dir.resolve("questions.jsonl"), Models.questions(model).subList(0, 20));
        assertThat(run("eval", "--model", model(model), "--kv", "f32", "--questions", questions.toString(), "--tokens",
                tokens.toString(), "--window", text.get("window").asText(), "--json")).as(err.toString()).isZero();
        JsonNode report = JSON.readTree(out.toString());
        assertThat(report.at("/nll/predicted_tokens").asInt()).isEqualTo(510);
        assertThat(report.at("/nll/mean_nll").asDouble()).isCloseTo(text.get("nll_sum").asDouble() / 510, within(1e-4));
        assertThat(report.at("/nll/perplexity").asDouble())
                .isCloseTo(Math.exp(report.at("/nll/mean_nll").asDouble()), within(1e-9));
        assertThat(report.at("/accuracy/all/questions").asInt()).isEqualTo(20);
        assertThat(report.at("/accuracy/all/correct").asInt()).isBetween(16, 20);
        assertThat(report.get("backend").asText()).isIn("native", "vector");
        assertThat(report.get("kv_format").asText()).isEqualTo("f32");
        assertThat(err.toString()).contains("20 of 20 questions, ", "2 of 2 windows, 512 tokens, ");
    }

    @Test
    void evalComparesWithAnUnroundedEngine() throws IOException {
        Path text = Files.writeString(dir.resolve("text.txt"), Models.text("kimi-tiny").substring(0, 900));
        Path questions = Files.write(dir.resolve("questions.jsonl"), Models.questions("kimi-tiny").subList(0, 6));
        String[] arguments = {"eval", "--model", model("kimi-tiny"), "--questions", questions.toString(), "--text",
            text.toString(), "--window", "100", "--json"};
        assertThat(run(arguments)).as(err.toString()).isZero();
        JsonNode report = JSON.readTree(out.toString());
        assertThat(report.get("kv_format").asText()).isEqualTo(KvFormat.auto().id());
        assertThat(report.at("/reference/kv_format").asText()).isEqualTo("f32");
        assertThat(report.at("/reference/weight_format").asText()).isEqualTo(report.get("weight_format").asText());
        JsonNode quality = report.get("quality");
        assertThat(quality.properties()).extracting(Map.Entry::getKey).containsExactly(
                "questions", "same_answers", "predicted_tokens", "mean_kl", "p99_kl", "max_kl", "top1_agreement", "delta_nll");
        assertThat(quality.get("mean_kl").asDouble()).isPositive().isLessThan(0.01);
        assertThat(quality.get("delta_nll").asDouble()).isEqualTo(
                report.at("/nll/mean_nll").asDouble() - report.at("/reference/nll/mean_nll").asDouble(), within(1e-12));
        assertThat(report.at("/reference/accuracy/all/questions").asInt()).isEqualTo(6);

        assertThat(run(with(arguments, "--no-reference"))).isZero();
        JsonNode alone = JSON.readTree(out.toString());
        assertThat(alone.has("reference")).isFalse();
        assertThat(alone.at("/nll/mean_nll").asDouble()).isCloseTo(report.at("/nll/mean_nll").asDouble(), within(1e-12));

        assertThat(run(with(arguments, "--kv", "f32", "--reference"))).isZero();
        assertThat(JSON.readTree(out.toString()).at("/quality/mean_kl").asDouble()).isEqualTo(0.0);
        assertThat(JSON.readTree(out.toString()).at("/quality/top1_agreement").asDouble()).isEqualTo(1.0);
    }

    @Test
    void evalPrintsTheComparison() throws IOException {
        Path text = Files.writeString(dir.resolve("text.txt"), Models.text("glm-tiny").substring(0, 200));
        assertThat(run("eval", "--model", model("glm-tiny"), "--text", text.toString(), "--weights", "bf16", "--kv", "int8"))
                .as(err.toString()).isZero();
        assertThat(out.toString()).contains("KV int8, weights bf16", "against     KV f32, weights bf16", "mean KL     0.", "p99 KL      0.",
                "max KL      0.", " % agree", "delta NLL   ");
    }

    @Test
    void inspectSaysWhatACheckpointIs() throws IOException {
        assertThat(run("model", "inspect", model("kimi-tiny"), "--json", "--kv-bytes", "1m")).as(err.toString()).isZero();
        JsonNode report = JSON.readTree(out.toString());
        assertThat(report.get("architecture").asText()).isEqualTo("DeepseekV3ForCausalLM");
        assertThat(report.get("parameters").asLong()).isEqualTo(4_187_520);
        long parts = 0;
        for (JsonNode part : report.get("parameters_by_part")) {
            parts += part.asLong();
        }
        assertThat(parts).isEqualTo(4_187_520);
        assertThat(report.get("active_parameters").asLong()).isLessThan(parts);
        assertThat(report.at("/bytes_by_dtype/bf16").asLong()).isEqualTo(2 * (4_187_520 - 64));
        assertThat(report.at("/bytes_by_dtype/f32").asLong()).isEqualTo(4 * 64);
        assertThat(report.at("/kv/bf16/bytes_per_token").asLong()).isEqualTo(2 * 5 * (128 + 32));
        assertThat(report.at("/kv/bf16/tokens_in_budget").asLong()).isEqualTo((1 << 20) / (16 * 1600) * 16);
        assertThat(report.at("/tokenizer/kind").asText()).isEqualTo("tiktoken.model");
        assertThat(report.at("/tokenizer/stop_token_ids")).hasToString("[1025,1026]");
        assertThat(report.get("digest").asText()).matches("sha256:[0-9a-f]{64}");
        assertThat(run("model", "inspect", "glm-tiny")).as("by the name of a bundled model").isZero();
        assertThat(out.toString()).contains("routed experts", "KV int8", "<|user|> 1268", "stop         [1264, 1268, 1270]");
    }

    // -------------------------------------------------------------------------------------------------- forms

    @Test
    void generateKeepsTheOrderAndEchoesAnyScalarId() throws IOException {
        String prompts = """
                {"id": "a", "messages": [{"role": "user", "content": "What is 81 plus 19?"}], "max_tokens": 20}
                {"id": 7, "prompt": "To be", "max_tokens": 3, "temperature": 0.9, "top_p": 0.9, "seed": 5, "stop": ["zz"]}

                {"id": 1.5, "ids": [84, 97, 459], "max_tokens": 1}
                {"id": null, "messages": [{"role": "user", "content": "Spell cat."}], "max_tokens": 2}
                {"prompt": "x", "max_tokens": 1}
                """;
        List<JsonNode> results = lines("generate", "glm-tiny", prompts, 0, "--batch", "2", "-D", "engine.prefill.chunk=8", "-D",
                "engine.model=ignored-beside-the-option");
        assertThat(results).extracting(r -> r.get("id").toString()).containsExactly("\"a\"", "7", "1.5", "null", "null");
        assertThat(results.get(0).get("text").asText()).isEqualTo("100");
        assertThat(results).extracting(r -> r.at("/usage/completion_tokens").asInt()).element(2).isEqualTo(1);
        assertThat(err.toString()).contains("5 of 5 prompts, ");
    }

    @Test
    void generateTellsRepliesAndLogProbabilities() throws IOException {
        String prompts = """
                {"id": 1, "messages": [{"role": "user", "content": "What is 81 plus 19?"}], "max_tokens": 20}
                {"id": 2, "prompt": "To be", "max_tokens": 2, "logprobs": 0}
                """;
        List<JsonNode> results = lines("generate", "glm-tiny", prompts, 0, "--logprobs", "2");
        JsonNode chat = results.get(0);
        assertThat(chat.at("/reply/content").asText()).isEqualTo(chat.get("text").asText()).isEqualTo("100");
        assertThat(chat.at("/reply/tool_calls").isEmpty()).isTrue();
        assertThat(chat.get("logprobs")).hasSize(chat.get("ids").size());
        for (JsonNode token : chat.get("logprobs")) {
            assertThat(token.get("top")).hasSize(2);
            assertThat(token.get("logprob")).as("greedy takes the most likely").isEqualTo(token.at("/top/0/logprob"));
            assertThat(token.get("logprob").floatValue()).isLessThanOrEqualTo(0).isGreaterThanOrEqualTo(token.at("/top/1/logprob").floatValue());
        }
        assertThat(chat.at("/logprobs/0/token").asText()).isEqualTo("1");
        assertThat(chat.at("/logprobs/0/bytes").toString()).isEqualTo("[49]");
        JsonNode raw = results.get(1);
        assertThat(raw.has("reply")).isFalse();
        assertThat(raw.at("/logprobs/0/top").isEmpty()).as("the line's own count").isTrue();
        assertThat(lines("generate", "glm-tiny", prompts.lines().findFirst().orElseThrow(), 0).getFirst().has("logprobs")).isFalse();
    }

    @Test
    void aSeedGivesTheSameTextAgainAndAnotherSeedAnother() throws IOException {
        String line = "{\"id\":%d,\"prompt\":\"To be\",\"max_tokens\":24,\"temperature\":1.5,\"seed\":%d}\n";
        List<JsonNode> results = lines("generate", "glm-tiny", line.formatted(1, 9) + line.formatted(2, 9) + line.formatted(3, 10), 0);
        assertThat(results.get(0).get("ids")).isEqualTo(results.get(1).get("ids")).isNotEqualTo(results.get(2).get("ids"));
    }

    @Test
    void aResponseFormatHoldsTheText() throws IOException {
        String line = """
                {"prompt": "To be", "max_tokens": 200, "temperature": 1.5, "seed": 3, "response_format": {"type": "json_schema", \
                "json_schema": {"schema": {"type": "array", "items": {"enum": ["or", "not"]}, "minItems": 2, "maxItems": 4}}}}
                """;
        JsonNode text = JSON.readTree(lines("generate", "glm-tiny", line, 0).getFirst().get("text").asText());
        assertThat(text).hasSizeBetween(2, 4).allSatisfy(item -> assertThat(item.asText()).isIn("or", "not"));
    }

    @Test
    void logitsOfAllTokensComeInOrder() throws IOException {
        JsonNode all = lines("logits", "glm-tiny", "{\"id\":1,\"ids\":[1265,1266,84]}", 0, "--all").getFirst().get("logits");
        assertThat(all).hasSize(1280);
        JsonNode top = lines("logits", "glm-tiny", "{\"id\":1,\"ids\":[1265,1266,84]}", 0, "--top", "3").getFirst().get("top");
        assertThat(top).hasSize(3);
        for (JsonNode pair : top) {
            assertThat(pair.get(1)).isEqualTo(all.get(pair.get(0).asInt()));
        }
    }

    // -------------------------------------------------------------------------------------------------- refusals

    @Test
    void aLineThatCanNotBeServedIsAnsweredAndTheOthersAreServed() throws IOException {
        String prompts = """
                {"id": 1, "prompt": "", "max_tokens": 2}
                {"id": 2, "prompt": "ok", "max_tokens": 2}
                {"id": 3, "ids": [1280], "max_tokens": 2}
                {"id": 4, "prompt": "hot", "temperature": -1}
                """;
        List<JsonNode> results = lines("generate", "glm-tiny", prompts, 1);
        assertThat(results).extracting(r -> r.at("/error/code").asText())
                .containsExactly("PROMPT_EMPTY", "", "TOKEN_ID_RANGE", "PARAM_RANGE");
        assertThat(results).extracting(r -> r.get("finish_reason").asText())
                .containsExactly("rejected", "length", "rejected", "rejected");
        assertThat(err.toString()).contains("millrace generate: 3 of 4 lines could not be served; see their error");
        assertThat(lines("logits", "glm-tiny", "{\"id\":1,\"ids\":[-1]}\n{\"id\":2,\"ids\":[1]}", 1))
                .extracting(r -> r.at("/error/code").asText()).containsExactly("TOKEN_ID_RANGE", "");
        assertThat(lines("tokenize", "glm-tiny", "{\"id\":1,\"ids\":[1279]}", 1, "--decode"))
                .extracting(r -> r.at("/error/code").asText()).containsExactly("TOKEN_ID_RANGE");
    }

    @Test
    void aMalformedLineIsNamedAndNothingIsWritten() throws IOException {
        refusedLine("generate", "{\"id\":1,\"prompt\":\"x\"}\n\n{\"id\":2,\"prompt\"", "line 3, column 17: expected strict JSON, got: Unexpected end-of-input within/between Object entries");
        refusedLine("generate", "[1]", "line 1: expected a JSON object, got an array");
        refusedLine("generate", "{\"id\":1}", "line 1: expected exactly one of messages, prompt and ids, got 0 of them");
        refusedLine("generate", "{\"id\":{},\"prompt\":\"x\"}", "line 1: id: expected a string or number, got an object");
        refusedLine("generate", "{\"prompt\":\"x\",\"max_tokens\":\"5\"}", "line 1: max_tokens: expected a whole number of 32 bits, got a string");
        refusedLine("generate", "{\"prompt\":\"x\",\"logprobs\":21}", "line 1: logprobs: expected 0 to 20, got 21");
        refusedLine("generate", "{\"prompt\":\"x\",\"response_format\":{\"type\":\"xml\"}}",
                "line 1: response_format.type: expected text, json_object or json_schema, got \"xml\"; see docs/formats.md");
        refusedLine("generate", "{\"messages\":[],\"tool_choice\":\"any\"}", "line 1: tool_choice: expected auto, none, required, or {");
        refusedLine("generate", "{\"messages\":[{\"content\":\"x\"}]}", "line 1: message 0: role: expected a string, got nothing");
        refusedLine("logits", "{\"id\":1,\"ids\":[1,2.5]}", "line 1: ids: expected whole numbers of 32 bits, got the number 2.5 as id 1");
        refusedLine("logits", "{\"id\":1}", "line 1: ids: expected an array of token ids, got nothing");
        refusedLine("tokenize", "{\"text\":\"a\",\"messages\":[]}", "line 1: expected exactly one of text and messages; for ids use --decode");
        refusedLine("tokenize", "{\"text\":\"a\",\"text\":\"b\"}", "line 1, column 19: expected strict JSON, got: Duplicate field 'text'");
    }

    private void refusedLine(String command, String input, String message) throws IOException {
        Path file = Files.writeString(dir.resolve("bad.jsonl"), input);
        Path output = dir.resolve("none.jsonl");
        assertThat(run(command, "--model", model("glm-tiny"), "--input", file.toString(), "--output", output.toString())).isOne();
        assertThat(err.toString().strip()).startsWith("millrace: " + file + ": " + message).doesNotContain("\tat ");
        assertThat(output).doesNotExist();
        assertThat(dir).isDirectoryNotContaining("glob:**.tmp");
    }

    @Test
    void aBadModelIsOneLine() throws IOException {
        Path file = Files.writeString(dir.resolve("in.jsonl"), "{\"id\":1,\"prompt\":\"x\"}");
        Path none = dir.resolve("none");
        assertThat(run("generate", "--model", none.toString(), "--input", file.toString(), "--output", dir.resolve("out").toString()))
                .isOne();
        assertThat(err.toString().strip()).isEqualTo("millrace: MODEL_MISSING: " + none
                + ": expected a model directory, got nothing there; check the path");
        assertThat(dir.resolve("out")).doesNotExist();
        assertThat(run("model", "inspect", none.toString())).isOne();
        assertThat(err.toString()).contains("MODEL_MISSING");
    }

    @Test
    void wrongUsageExitsWithTwo() {
        String[] base = {"generate", "--model", model("glm-tiny"), "--input", "-", "--output", "-"};
        usage("Missing required options: '--input=FILE', '--output=FILE'", "generate", "--model", "x");
        usage("-D engine.speed: expected one of engine.aging.ms, engine.backend, engine.cache.prefix, "
                + "engine.chat.format, engine.cuda.device, engine.cuda.driver, engine.kv.bytes, engine.kv.format, "
                + "engine.kv.index.format, engine.max.batch, engine.max.context, engine.memory.bytes, engine.model, engine.model.digest, engine.model.key, engine.model.signature, "
                + "engine.model.verify, engine.prefill.chunk, engine.speculation, engine.speculation.tokens, engine.threads, engine.weights, got an unknown key", with(base, "-D", "engine.speed=9"));
        usage("Missing required option: '--model=DIR'", "generate", "--input", "-", "--output", "-");
        usage("--kv: KV format: expected one of f32, bf16, int8, int4, fp8, fp8-plain, got \"fp4\"", with(base, "--kv", "fp4"));
        usage("--kv-index: format of index keys: expected one of auto, f32, bf16, int8, got \"fp8\"", with(base, "--kv-index", "fp8"));
        usage("--speculation: speculation: expected one of off, mtp, auto, got \"on\"", with(base, "--speculation", "on"));
        usage("--speculation: speculation: expected 1 to 3 tokens, got 4", with(base, "--speculation", "mtp:4"));
        usage("engine.speculation.tokens: expected a whole number from 1 to 3, got \"0\"",
                with(base, "-D", "engine.speculation.tokens=0"));
        usage("--backend: expected auto, cuda, native, vector or scalar, got \"gpu\"", with(base, "--backend", "gpu"));
        usage("engine.cuda.driver: expected system or standin, got \"fake\"", with(base, "-D", "engine.cuda.driver=fake"));
        usage("engine.cuda.device: expected a whole number from 0 to 255, got \"-1\"", with(base, "-D", "engine.cuda.device=-1"));
        usage("--batch: expected a whole number from 1 to 4096, got \"0\"", with(base, "--batch", "0"));
        usage("Invalid value for option '--kv-bytes': expected bytes like 4096, 64k, 512m or 8g, got \"lots\"",
                with(base, "--kv-bytes", "lots"));
        usage("expected --questions, --text or --tokens, got none", "eval", "--model", model("glm-tiny"));
        usage("expected --text or --tokens, got both", "eval", "--model", "glm-tiny", "--text", "a", "--tokens", "b");
        usage("--model: expected one of [glm-tiny, glm-tiny-mtp, kimi-tiny], got \"x\"", "eval", "quality", "--model", "x");
        usage("--write: expected no --model: a page has the tables of all", "eval", "quality", "--model", "glm-tiny", "--write",
                "x.md");
        usage("--top: expected a number of at least 1, got 0", "logits", "--model", "x", "--input", "-", "--output", "-",
                "--top", "0");
        usage("expected a command of model, got none; for example inspect", "model");
    }

    private void usage(String message, String... arguments) {
        assertThat(run(arguments)).isEqualTo(2);
        assertThat(err.toString()).startsWith("millrace: " + message).contains("--help` explains it");
    }

    @Test
    void sizesAreReadAndWritten() {
        assertThat(ByteSize.parse("4096")).isEqualTo(4096);
        assertThat(ByteSize.parse("64k")).isEqualTo(65_536);
        assertThat(ByteSize.parse("3M")).isEqualTo(3 << 20);
        assertThat(ByteSize.parse("2gb")).isEqualTo(2L << 30);
        assertThat(ByteSize.text(1023)).isEqualTo("1023 B");
        assertThat(ByteSize.text(1536)).isEqualTo("1.50 KiB");
        assertThat(ByteSize.text(200L << 30)).isEqualTo("200 GiB");
        assertThat(LogitsCommand.largest(new float[] {1, 3, 3, 2}, 3)).containsExactly(1, 2, 3);
    }

    // -------------------------------------------------------------------------------------------------- helpers

    private List<JsonNode> lines(String command, String model, Stream<? extends JsonNode> input, int exit, String... more)
            throws IOException {
        StringBuilder text = new StringBuilder();
        input.forEach(line -> text.append(line).append('\n'));
        return lines(command, model, text.toString(), exit, more);
    }

    private List<JsonNode> lines(String command, String model, String input, int exit, String... more) throws IOException {
        Path from = Files.writeString(dir.resolve("input.jsonl"), input);
        Path to = dir.resolve("output.jsonl");
        String[] arguments = {command, "--model", model(model), "--input", from.toString(), "--output", to.toString()};
        assertThat(run(with(arguments, more))).as(err.toString()).isEqualTo(exit);
        List<JsonNode> lines = new ArrayList<>();
        for (String line : Files.readAllLines(to)) {
            lines.add(JSON.readTree(line));
        }
        return lines;
    }

    private int run(String... arguments) {
        out.getBuffer().setLength(0);
        err.getBuffer().setLength(0);
        CommandLine line = Main.commandLine();
        line.setOut(new PrintWriter(out));
        line.setErr(new PrintWriter(err));
        return line.execute(arguments);
    }

    private static String[] with(String[] arguments, String... more) {
        return Stream.concat(Stream.of(arguments), Stream.of(more)).toArray(String[]::new);
    }

    private static String model(String name) {
        return models.resolve(name).toString();
    }

    private static List<JsonNode> goldens(String model) throws IOException {
        List<JsonNode> goldens = new ArrayList<>();
        for (String line : text(model + ".jsonl").lines().toList()) {
            goldens.add(JSON.readTree(line));
        }
        return goldens;
    }

    private static JsonNode resource(String name) throws IOException {
        return JSON.readTree(text(name));
    }

    private static String text(String name) throws IOException {
        try (InputStream in = Objects.requireNonNull(OfflineToolsTest.class.getResourceAsStream("/golden/" + name), name)) {
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        }
    }
}
