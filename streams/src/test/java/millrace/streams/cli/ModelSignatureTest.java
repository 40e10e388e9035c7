package millrace.streams.cli;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import millrace.streams.Models;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import picocli.CommandLine;

/// `model keygen`, `sign` and `verify`, and what an engine makes of them.
class ModelSignatureTest {
    @TempDir
    Path directory;

    private Path model;
    private Path key;
    private Path pub;
    private String out = "";
    private String err = "";

    @BeforeEach
    void makeModel() throws IOException {
        assumeThat(directory.getFileSystem().supportedFileAttributeViews()).contains("posix");
        model = Models.directory("glm-tiny", directory);
        key = directory.resolve("model.key");
        pub = directory.resolve("model.pub");
        assertThat(run("model", "keygen", key.toString())).isZero();
        Files.writeString(pub, out);
    }

    private int run(String... arguments) {
        StringWriter outText = new StringWriter();
        StringWriter errText = new StringWriter();
        CommandLine line = Main.commandLine().setOut(new PrintWriter(outText)).setErr(new PrintWriter(errText));
        int code = line.execute(arguments);
        out = outText.toString();
        err = errText.toString();
        return code;
    }

    private int sign(String... more) {
        List<String> arguments = new ArrayList<>(List.of("model", "sign", model.toString(), "--key", key.toString()));
        arguments.addAll(List.of(more));
        return run(arguments.toArray(String[]::new));
    }

    private int verify(String... more) {
        List<String> arguments = new ArrayList<>(List.of("model", "verify", model.toString(), "--key", pub.toString()));
        arguments.addAll(List.of(more));
        return run(arguments.toArray(String[]::new));
    }

    @Test
    void keysAreMadeOnceAndShown() throws IOException {
        assertThat(PosixFilePermissions.toString(Files.getPosixFilePermissions(key))).isEqualTo("rw-------");
        assertThat(Files.readString(pub)).startsWith("-----BEGIN PUBLIC KEY-----\n");
        assertThat(run("model", "keygen", "--show", key.toString())).isZero();
        assertThat(out).isEqualTo(Files.readString(pub));
        assertThat(run("model", "keygen", key.toString())).isEqualTo(3);
        assertThat(err).isEqualTo("millrace: " + key + ": exists already; models that it signed need it."
                + " Give another file, or --show to see its public key\n");
        assertThat(run("model", "keygen", directory.resolve("x").toString(), "--curve", "p128")).isEqualTo(3);
        assertThat(err).isEqualTo("millrace: curve: expected one of p256, p384, p521, got \"p128\"\n");
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void signsAndVerifies(boolean shards) throws IOException {
        assertThat(shards ? sign("--shards") : sign()).as(err).isZero();
        assertThat(out).startsWith("integrity/tensors.json: 273 tensors, 0 of them packed, 4 golden prompts\n"
                + model.resolve("model.sig") + ": signed by the key ");
        assertThat(verify()).as(out).isZero();
        assertThat(out).contains("ok          8.08 MiB  model.safetensors\n", "integrity/tensors.json\n",
                "ignored", "model.sig\n").endsWith("ok\n");
        assertThat(verify("--json")).isZero();
        JsonNode node = JsonLines.mapper().readTree(out);
        assertThat(node.path("verdict").asText()).isEqualTo("ok");
        assertThat(node.path("model").asText()).isEqualTo("glm-tiny");
        assertThat(node.path("serialization").asText()).isEqualTo(shards ? "shards" : "files");
        assertThat(node.path("files")).hasSize(8)
                .allMatch(file -> file.path("state").asText().equals(file.path("path").asText().equals("model.sig") ? "ignored" : "ok"));
        assertThat(generate("engine.model.key=" + pub)).as(err).isZero();
    }

    @Test
    void saysWhatEveryFileIs() throws IOException {
        sign("--no-tensors");
        Files.writeString(model.resolve("config.json"), "{}");
        Files.delete(model.resolve("generation_config.json"));
        Files.createDirectories(model.resolve("cache"));
        Files.write(model.resolve("cache/x.safetensors"), new byte[1]);
        assertThat(verify()).isEqualTo(1);
        assertThat(out).contains(
                "mismatch         2 B  config.json\n", "missing               generation_config.json\n",
                "unsigned         1 B  cache/x.safetensors\n", "MODEL_FILE_MISMATCH: config.json: expected sha256 ",
                "MODEL_FILE_MISSING: generation_config.json: ", "MODEL_FILE_UNSIGNED: cache/x.safetensors: ").endsWith("violated\n");
        assertThat(verify("--json")).isEqualTo(1);
        JsonNode node = JsonLines.mapper().readTree(out);
        assertThat(node.path("verdict").asText()).isEqualTo("violated");
        assertThat(node.path("code").asText()).isEqualTo("MODEL_FILE_MISMATCH");
        assertThat(node.path("files").findValuesAsText("state"))
                .containsExactly("ok", "mismatch", "missing", "ok", "ok", "ok", "unsigned", "ignored");
    }

    @Test
    void namesTheTensorsThatAreDamaged() throws IOException {
        assertThat(sign()).as(err).isZero();
        Path weights = model.resolve("model.safetensors");
        byte[] bytes = Files.readAllBytes(weights);
        JsonNode listed = JsonLines.mapper().readTree(model.resolve("integrity/tensors.json").toFile()).path("tensors").get(7);
        int at = listed.path("end").asInt() - 1;
        bytes[at] ^= 1;
        Files.write(weights, bytes);
        String name = listed.path("name").asText();
        assertThat(verify()).isEqualTo(1);
        int first = listed.path("begin").asInt() + (at - listed.path("begin").asInt()) / (1 << 20) * (1 << 20);
        assertThat(out).contains("MODEL_FILE_MISMATCH: model.safetensors: ", "model.safetensors: tensor " + name
                + ": expected the listed bytes, got others in 1 of its ", " MiB, the first from byte " + first + " on\n");
        assertThat(out.lines().filter(line -> line.contains(": tensor "))).hasSize(1);
        assertThat(verify("--json")).isEqualTo(1);
        JsonNode tensors = JsonLines.mapper().readTree(out).path("files").findPath("tensors");
        assertThat(tensors).hasSize(1);
        assertThat(tensors.get(0).path("name").asText()).isEqualTo(name);
        assertThat(tensors.get(0).path("blocks")).hasSize(1);
        Files.write(weights, java.util.Arrays.copyOf(bytes, at));
        assertThat(verify()).isEqualTo(1);
        assertThat(out).as("cut off").contains(": tensor " + name + ": ");
        Files.writeString(model.resolve("integrity/tensors.json"), "{}");
        assertThat(verify()).isEqualTo(1);
        assertThat(out).as("a list that is not the signed one").doesNotContain(": tensor ");
    }

    @Test
    void tellsUndecidedFromViolatedFromUsage() throws IOException {
        assertThat(verify()).isEqualTo(2);
        assertThat(out).isEqualTo("undecided: MODEL_BUNDLE_MISSING: " + model.resolve("model.sig") + ": expected the model's"
                + " signature bundle, got no file; sign the model, or say where its bundle is\n");
        Path elsewhere = directory.resolve("bundle.sig");
        assertThat(sign("--no-tensors", "--out", elsewhere.toString(), "--json")).isZero();
        assertThat(JsonLines.mapper().readTree(out).path("bundle").asText()).isEqualTo(elsewhere.toString());
        assertThat(verify("--signature", elsewhere.toString())).isZero();
        run("model", "keygen", directory.resolve("other.key").toString(), "--curve", "p256");
        Files.writeString(pub, out);
        assertThat(verify("--signature", elsewhere.toString(), "--json")).isEqualTo(2);
        JsonNode node = JsonLines.mapper().readTree(out);
        assertThat(node.path("verdict").asText()).isEqualTo("undecided");
        assertThat(node.path("code").asText()).isEqualTo("MODEL_KEY_UNKNOWN");
        Files.writeString(elsewhere, "{}");
        assertThat(verify("--signature", elsewhere.toString())).isEqualTo(1);
        assertThat(out).startsWith("violated: MODEL_BUNDLE_PARSE: ");
        Files.writeString(pub, "no key");
        Files.writeString(elsewhere, "{\"mediaType\": \"x\"}");
        assertThat(verify("--signature", elsewhere.toString())).isEqualTo(2);
        assertThat(out).startsWith("undecided: MODEL_BUNDLE_UNSUPPORTED: ");
        sign("--no-tensors");
        assertThat(verify()).isEqualTo(3);
        assertThat(err).isEqualTo("millrace: MODEL_KEY_FORMAT: " + pub + ": expected a PEM block, got none; write one by openssl\n");
        assertThat(run("model", "verify", directory.resolve("none").toString(), "--key", pub.toString())).isEqualTo(3);
        assertThat(run("model", "verify", model.toString())).isEqualTo(3);
        Files.setPosixFilePermissions(key, PosixFilePermissions.fromString("rw-r--r--"));
        assertThat(sign()).isEqualTo(3);
        assertThat(err).startsWith("millrace: KEY_FILE_MODE: key file " + key + ": mode: expected rw------- or less, got rw-r--r--");
    }

    private int generate(String... settings) throws IOException {
        Path input = Files.writeString(directory.resolve("in.jsonl"),
                "{\"id\": 1, \"prompt\": \"To be\", \"max_tokens\": 2}\n", StandardCharsets.UTF_8);
        List<String> arguments = new ArrayList<>(List.of("generate", "--model", model.toString(), "--kv-bytes", "64m", "--input",
                input.toString(), "--output", directory.resolve("out.jsonl").toString()));
        for (String setting : settings) {
            arguments.addAll(List.of("-D", setting));
        }
        return run(arguments.toArray(String[]::new));
    }

    /// One flipped bit of the weights, one file too many, a packed copy: none is served where a key is configured.
    @Test
    void enginesServeOnlyWhatWasSigned() throws IOException {
        assertThat(sign()).isZero();
        String trusted = "engine.model.key=" + pub;
        Path packed = directory.resolve("packed");
        assertThat(run("model", "pack", model.toString(), "--format", "packed", "--out", packed.toString())).isZero();
        assertThat(out).contains("not signed: a signature of the source does not cover it; millrace model sign " + packed + " --key KEY");
        byte[] weights = Files.readAllBytes(model.resolve("model.safetensors"));
        weights[weights.length - 100] ^= 4;
        Files.write(model.resolve("model.safetensors"), weights);
        assertThat(generate(trusted)).isEqualTo(1);
        assertThat(err).startsWith("millrace: MODEL_FILE_MISMATCH: model.safetensors: expected sha256 ");
        assertThat(generate(trusted, "engine.model.verify=warn")).isEqualTo(1);
        assertThat(err).as("unsigned or not, the manifest knows").startsWith("millrace: MODEL_TENSOR_MISMATCH: model.safetensors: lm_head.weight, ");
        weights[weights.length - 100] ^= 4;
        Files.write(model.resolve("model.safetensors"), weights);
        Files.writeString(model.resolve("notes.txt"), "more");
        assertThat(generate(trusted)).isEqualTo(1);
        assertThat(err).startsWith("millrace: MODEL_FILE_UNSIGNED: notes.txt: ");
        assertThat(generate(trusted, "engine.model.verify=warn")).as(err).isZero();
        assertThat(generate("engine.model.verify=require")).isEqualTo(1);
        assertThat(err).startsWith("millrace: engine.model.key: expected a public key with engine.model.verify=require, got nothing;");
        assertThat(generate("engine.model.verify=maybe")).isEqualTo(2);
        Path glm = model;
        model = packed;
        assertThat(generate(trusted)).isEqualTo(1);
        assertThat(err).startsWith("millrace: MODEL_BUNDLE_MISSING: ");
        assertThat(generate(trusted, "engine.model.signature=" + glm.resolve("model.sig"))).isEqualTo(1);
        assertThat(err).startsWith("millrace: MODEL_FILE_").contains("; and ").contains(" more, which `millrace model verify` lists");
        assertThat(sign()).as(err).isZero();
        assertThat(generate(trusted)).as(err).isZero();
    }
}
