package millrace.integrity.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyPair;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import millrace.integrity.Digest;
import millrace.integrity.IntegrityException;
import millrace.integrity.model.Layouts.Entry;
import millrace.integrity.model.Layouts.Version;
import millrace.integrity.model.ModelReport.State;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

class SignedModelTest {
    private static final KeyPair KEY = Layouts.key("secp384r1");
    private static final Instant NOW = Instant.parse("2026-11-30T00:00:00Z");
    private static final String FILES = "{\"method\": \"files\", \"hash_type\": \"sha256\", \"allow_symlinks\": false}";
    private static final String SHARDS =
            "{\"method\": \"shards\", \"hash_type\": \"sha256\", \"shard_size\": 4, \"allow_symlinks\": false}";

    @TempDir
    Path directory;

    private static byte[] text(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private TrustStore trust(KeyPair key) throws IOException {
        Path file = directory.resolve("trusted.pem");
        Files.writeString(file, "A key for tests.\n\nSecond line.\n" + Layouts.pem(key));
        return TrustStore.load(file);
    }

    private SignedModel verify(String bundle) throws IOException {
        return SignedModel.verify(ModelBundle.parse(text(bundle), "model.sig"), trust(KEY), NOW);
    }

    private SignedModel verifyStatement(String payload) throws IOException {
        return verify(Layouts.bundle(Version.V1_1_0, KEY, "SHA384", payload));
    }

    private SignedModel ofEntries(List<Entry> entries, String serialization) throws IOException {
        return verifyStatement(Layouts.statement("m", Layouts.root(entries), entries, serialization));
    }

    private static ModelReport check(SignedModel signed, Map<String, byte[]> files) throws IOException {
        return signed.check(new Layouts.Memory(files), Set.of("model.sig"), 2, SignedModel.Progress.NONE);
    }

    private static IntegrityException refusal(org.assertj.core.api.ThrowableAssert.ThrowingCallable call) {
        try {
            call.call();
        } catch (IntegrityException e) {
            return e;
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
        throw new AssertionError("expected a refusal");
    }

    @ParameterizedTest
    @EnumSource(Version.class)
    void verifiesBundlesOfEveryLayout(Version version) throws IOException {
        Map<String, byte[]> files = Map.of("b/w.safetensors", text("weights"), "config.json", text("{}"));
        List<Entry> entries = List.of(Entry.of("b/w.safetensors", text("weights")), Entry.of("config.json", text("{}")));
        String payload = Layouts.statement(version, "model", entries);
        SignedModel signed = verify(Layouts.bundle(version, KEY, "SHA384", payload));
        assertThat(signed.keyHint()).isEqualTo(Layouts.hint(KEY));
        assertThat(signed.statement().model()).isEqualTo("model");
        assertThat(signed.statement().root().hex()).isEqualTo(Layouts.root(entries));
        assertThat(check(signed, files).holds()).isTrue();
    }

    @ParameterizedTest
    @CsvSource({"secp256r1, SHA256", "secp384r1, SHA384", "secp521r1, SHA512"})
    void verifiesTheThreeCurves(String curve, String hash) throws IOException {
        KeyPair key = Layouts.key(curve);
        String payload = Layouts.statement(Version.V1_1_0, "m", List.of(Entry.of("a", text("a"))));
        ModelBundle bundle = ModelBundle.parse(text(Layouts.bundle(Version.V1_1_0, key, hash, payload)), "model.sig");
        assertThat(SignedModel.verify(bundle, trust(key), NOW).statement().resources()).hasSize(1);
    }

    /// A model of one file is listed by the name of the directory that it stands for.
    @Test
    void verifiesASingleFile() throws IOException {
        Path file = directory.resolve("signed");
        Files.writeString(file, "one file");
        SignedModel signed = ofEntries(List.of(Entry.of(".", text("one file"))), FILES);
        assertThat(signed.check(ModelContents.of(file), Set.of(), 1, SignedModel.Progress.NONE).holds()).isTrue();
        Files.writeString(file, "One file");
        assertThat(signed.check(ModelContents.of(file), Set.of(), 1, SignedModel.Progress.NONE).files().getFirst().state())
                .isEqualTo(State.MISMATCH);
    }

    /// Two digests and the root over them, as published by the makers of the format.
    @Test
    void computesTheRootInListedOrder() throws IOException {
        List<Entry> entries = List.of(
                new Entry("signme-1", "bc9a717db6064a32cbe9eae6fc40651dd6d36ef1757183f590eff2b1765d7ebc"),
                new Entry("signme-2", "32dcb1f8e1ae52d5963e56a6ba06ab58b424c15ed2a6b70d2feca1d089370028"));
        String root = "92745110b1ab4368471cbe31664e10174e954b113a3df333db860317b2c6dec4";
        assertThat(ofEntries(entries, FILES).statement().root()).isEqualTo(Digest.ofHex(root));
        IntegrityException refusal = refusal(() -> verifyStatement(Layouts.statement("m", root, entries.reversed(), FILES)));
        assertThat(refusal.code()).isEqualTo("MODEL_ROOT_MISMATCH");
        assertThat(refusal).hasMessage("model.sig: subject: expected the digest " + Layouts.root(entries.reversed())
                + " of the listed files, got " + root + "; sign again");
    }

    /// Names whose order differs between tools: nothing is sorted anew.
    @Test
    void keepsTheOrderOfTheList() throws IOException {
        List<Entry> entries = List.of(
                Entry.of("onnx/model.onnx", text("1")), Entry.of("onnx-config.json", text("2")),
                Entry.of("w\\u0308".replace("\\u0308", "x"), text("3")));
        assertThat(ofEntries(entries, FILES).statement().resources()).extracting(ModelStatement.Resource::path)
                .containsExactly("onnx/model.onnx", "onnx-config.json", "wx");
        List<Entry> pieces = List.of(
                Entry.of("w:4:8", text("efgh")), Entry.of("w:0:4", text("abcd")), Entry.of("w:8:9", text("i")),
                Entry.of("w:1:0:3", text("xyz")));
        SignedModel signed = ofEntries(pieces, SHARDS);
        assertThat(signed.statement().resources()).extracting(ModelStatement.Resource::path)
                .containsExactly("w", "w", "w", "w:1");
        assertThat(check(signed, Map.of("w", text("abcdefghi"), "w:1", text("xyz"), "empty", text(""))).holds()).isTrue();
    }

    @Test
    void saysWhatEveryFileIs() throws IOException {
        List<Entry> entries = List.of(
                Entry.of("a", text("a")), Entry.of("b", text("b")), Entry.of("c", text("c")));
        SignedModel signed = verifyStatement(Layouts.statement(Version.V1_1_0, "m", entries));
        Map<String, byte[]> files = new TreeMap<>(Map.of(
                "a", text("a"), "b", text("B"), "extra", text("x"), "skipped/deep", text("x"), "model.sig", text("x"),
                ".git/config", text("x"), ".gitignore", text("x"), "sub/.git", text("x")));
        ModelReport report = check(signed, files);
        assertThat(report.files()).extracting(file -> file.path() + " " + file.state()).containsExactly(
                "a OK", "b MISMATCH", "c MISSING", ".git/config IGNORED", ".gitignore IGNORED", "extra UNSIGNED",
                "model.sig IGNORED", "skipped/deep IGNORED", "sub/.git UNSIGNED");
        assertThat(report.problems()).containsExactly(
                "MODEL_FILE_MISMATCH: b: expected sha256 " + Layouts.hex(text("b")) + ", got " + Layouts.hex(text("B"))
                        + "; fetch the file again",
                "MODEL_FILE_MISSING: c: expected the signed file, got none; fetch the model again",
                "MODEL_FILE_UNSIGNED: extra: expected signed files only, got one that the signature does not list;"
                        + " remove it, or sign the model again",
                "MODEL_FILE_UNSIGNED: sub/.git: expected signed files only, got one that the signature does not list;"
                        + " remove it, or sign the model again");
        assertThat(report.count(State.IGNORED)).isEqualTo(4);
        assertThatThrownBy(report::require).isInstanceOf(IntegrityException.class)
                .extracting("code").isEqualTo("MODEL_FILE_MISMATCH");
    }

    /// Being on the list of what is ignored makes a file no better: what is read must be signed.
    @Test
    void refusesAnIgnoredFileThatIsRead() throws IOException {
        SignedModel signed = verifyStatement(Layouts.statement(Version.V1_1_0, "m", List.of(
                Entry.of("a", text("a")), Entry.of("readme", text("r")))));
        Layouts.Memory memory = new Layouts.Memory(Map.of("a", text("a"), "readme", text("?"), "skipped", text("x")));
        ModelReport unread = signed.checkRead(memory, Set.of(), Set.of("a")::contains, 1, SignedModel.Progress.NONE);
        assertThat(unread.holds()).isTrue();
        assertThat(unread.files()).extracting(ModelReport.FileReport::state)
                .containsExactly(State.OK, State.UNREAD, State.IGNORED);
        ModelReport read = signed.checkRead(memory, Set.of(), Set.of("a", "skipped")::contains, 1, SignedModel.Progress.NONE);
        assertThat(read.problems()).singleElement().asString().startsWith("MODEL_FILE_UNSIGNED: skipped: ");
    }

    @Test
    void findsBytesBehindAndBeforeTheEndOfPieces() throws IOException {
        SignedModel signed = ofEntries(List.of(Entry.of("w:0:4", text("abcd")), Entry.of("w:4:6", text("ef"))), SHARDS);
        assertThat(check(signed, Map.of("w", text("abcdef"))).holds()).isTrue();
        assertThat(check(signed, Map.of("w", text("abcdefg"))).problems())
                .containsExactly("MODEL_FILE_MISMATCH: w: expected 6 bytes, got 7; fetch the file again");
        assertThat(check(signed, Map.of("w", text("abcde"))).problems()).singleElement().asString()
                .startsWith("MODEL_FILE_MISMATCH: w: bytes 4 to 6: expected sha256 " + Layouts.hex(text("ef")) + ", got ");
        assertThat(check(signed, Map.of("w", text("ab"))).holds()).isFalse();
    }

    @Test
    void readsFilesOfADirectoryAndFollowsNoLink() throws IOException {
        Path model = Files.createDirectories(directory.resolve("model/deep"));
        Files.writeString(model.resolve("w"), "weights");
        Files.writeString(directory.resolve("outside"), "weights");
        Path signedFile = directory.resolve("model/linked");
        Files.createSymbolicLink(signedFile, directory.resolve("outside"));
        List<Entry> entries = List.of(Entry.of("deep/w", text("weights")), Entry.of("linked", text("weights")));
        SignedModel strict = ofEntries(entries, FILES);
        ModelContents disk = ModelContents.of(directory.resolve("model"));
        assertThat(strict.check(disk, Set.of(), 2, SignedModel.Progress.NONE).problems()).containsExactly(
                "MODEL_FILE_MISMATCH: linked: expected a file inside the model's directory, got a symbolic link;"
                        + " fetch the file again");
        SignedModel loose = ofEntries(entries, FILES.replace("false", "true"));
        assertThat(loose.check(disk, Set.of(), 2, SignedModel.Progress.NONE).problems()).containsExactly(
                "MODEL_FILE_MISMATCH: linked: expected a file inside the model's directory, got a link that leaves the"
                        + " directory; fetch the file again");
        Files.delete(signedFile);
        Files.createSymbolicLink(signedFile, Path.of("deep/w"));
        assertThat(loose.check(ModelContents.of(directory.resolve("model")), Set.of(), 2, SignedModel.Progress.NONE).holds())
                .isTrue();
        Files.delete(signedFile);
        Files.createSymbolicLink(signedFile, Path.of("nowhere"));
        assertThat(loose.check(ModelContents.of(directory.resolve("model")), Set.of(), 2, SignedModel.Progress.NONE)
                .problems()).singleElement().asString().contains("got a link to nothing");
    }

    @Test
    void refusesAnotherKeysSignature() throws IOException {
        KeyPair other = Layouts.key("secp384r1");
        String payload = Layouts.statement(Version.V1_1_0, "m", List.of(Entry.of("a", text("a"))));
        IntegrityException unknown = refusal(() -> verify(Layouts.bundle(Version.V1_1_0, other, "SHA384", payload)));
        assertThat(unknown.code()).isEqualTo("MODEL_KEY_UNKNOWN");
        assertThat(unknown).hasMessage("model.sig: expected a key of %s (%s), got the hint %s; add that key if you trust it"
                .formatted(directory.resolve("trusted.pem"), Layouts.hint(KEY), Layouts.hint(other)));
        assertThat(refusal(() -> verify(Layouts.bundle(Version.V1_0_1, other, "SHA384", payload))).code())
                .isEqualTo("MODEL_KEY_UNKNOWN");
        String forged = "{\"publicKey\": {\"hint\": \"" + Layouts.hint(KEY) + "\"}}";
        refuseSignature(Layouts.bundle(forged, payload, Layouts.signature(other, "SHA384", payload), ""));
    }

    private void refuseSignature(String bundle) {
        IntegrityException refusal = refusal(() -> verify(bundle));
        assertThat(refusal.code()).isEqualTo("MODEL_SIG_INVALID");
        assertThat(refusal).hasMessage("model.sig: expected a signature of its statement by the key " + Layouts.hint(KEY)
                + ", got another; fetch the bundle again, and do not use this model until it verifies");
    }

    @Test
    void refusesSignaturesThatAreNone() {
        String payload = Layouts.statement(Version.V1_1_0, "m", List.of(Entry.of("a", text("a"))));
        String material = "{\"publicKey\": {\"hint\": \"" + Layouts.hint(KEY) + "\"}}";
        byte[] good = Layouts.signature(KEY, "SHA384", payload);
        byte[] cut = java.util.Arrays.copyOf(good, good.length - 5);
        refuseSignature(Layouts.bundle(material, payload, cut, ""));
        byte[] zeroR = {0x30, 6, 2, 1, 0, 2, 1, 1};
        refuseSignature(Layouts.bundle(material, payload, zeroR, ""));
        byte[] zeroS = {0x30, 6, 2, 1, 1, 2, 1, 0};
        refuseSignature(Layouts.bundle(material, payload, zeroS, ""));
        refuseSignature(Layouts.bundle(material, payload, text("text"), ""));
        refuseSignature(Layouts.bundle(material, payload, Layouts.signature(KEY, "SHA256", payload), ""));
        // The same JSON in other bytes.
        refuseSignature(Layouts.bundle(material, payload.replace("\n ", "\n  "), good, ""));
        refuseSignature(Layouts.bundle(material, payload.replace("\"m\"", "\"n\""), good, ""));
    }

    @Test
    void refusesStatementsThatAreNone() {
        String payload = Layouts.statement("m", Layouts.root(List.of(Entry.of("a", text("a")))), List.of(Entry.of("a", text("a"))), FILES);
        String digest = Layouts.hex(text("a"));
        refuseStatement(payload.replace("\"resources\": [", "\"resources\": [], \"resources\": ["),
                "expected strict JSON, got: Duplicate field 'resources' at line 6, column 31; fetch it again");
        refuseStatement(payload.replace("Statement/v1", "Statement/v0.1"),
                "_type: expected https://in-toto.io/Statement/v1, got \"https://in-toto.io/Statement/v0.1\"; sign again");
        refuseStatement(payload.replace("signature/v1.0", "signature/v2.0"),
                "predicateType: expected https://model_signing/signature/v1.0, got"
                        + " \"https://model_signing/signature/v2.0\"; sign again");
        refuseStatement(payload.replace("\"subject\": [", "\"subject\": [{\"name\": \"n\"}, "),
                "subject: expected one, got 2; sign one model");
        refuseStatement(payload.replace("\"files\"", "\"tree\""),
                "predicate: serialization: method: expected files or shards, got \"tree\"; sign again");
        refuseStatement(payload.replace("\"digest\": \"" + digest, "\"digest\": \"" + digest.toUpperCase(java.util.Locale.ROOT)),
                "predicate: resources[0]: digest: expected 64 lower-case hexadecimal digits, got \""
                        + digest.toUpperCase(java.util.Locale.ROOT) + "\"; sign again");
        refuseStatement(payload.replace("\"digest\": \"" + digest, "\"digest\": \"" + digest.substring(1)),
                "predicate: resources[0]: digest: expected 64 lower-case hexadecimal digits, got \""
                        + digest.substring(1) + "\"; sign again");
        refuseStatement(payload.replaceAll("(?s)\\{\"name\": \"a\".*?\\}", ""),
                "predicate: resources: expected files, got none; sign a model that has some");
        refuseStatement("[1]", "expected a JSON object, got another value; fetch it again");
        refuseStatement(payload + "{}",
                "expected strict JSON, got: Trailing token at line 11, column 2; fetch it again");
        refuseStatement(payload.replace("\"predicate\":", "\"x\": " + "[".repeat(20) + "]".repeat(20) + ", \"predicate\":"),
                "expected strict JSON, got: Document nesting depth (17) exceeds the maximum allowed (16, from"
                        + " `StreamReadConstraints.getMaxNestingDepth()`); fetch it again");
    }

    private void refuseStatement(String payload, String message) {
        IntegrityException refusal = refusal(() -> verifyStatement(payload));
        assertThat(refusal).hasMessage("model.sig: statement: " + message);
        assertThat(refusal.code()).isEqualTo("MODEL_STATEMENT_INVALID");
    }

    @Test
    void refusesOtherDigestsWithAdvice() {
        String payload = Layouts.statement("m", Layouts.root(List.of(Entry.of("a", text("a")))), List.of(Entry.of("a", text("a"))), FILES);
        for (String other : List.of("blake2b", "blake3", "sha256-sharded-4")) {
            IntegrityException refusal = refusal(() -> verifyStatement(payload.replace("\"sha256\", \"allow", "\"" + other + "\", \"allow")));
            assertThat(refusal).hasMessage("model.sig: statement: predicate: serialization: hash_type: expected sha256, got \""
                    + other + "\"; sign again with sha256");
            assertThat(refusal.code()).isEqualTo("MODEL_BUNDLE_UNSUPPORTED");
        }
        assertThat(refusal(() -> verifyStatement(payload.replace("\"algorithm\": \"sha256\"", "\"algorithm\": \"blake3\"")))
                .code()).isEqualTo("MODEL_BUNDLE_UNSUPPORTED");
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', quoteCharacter = '`', value = {
        "../x | ../x | has a part ..",
        "a/../../x | a/../../x | has a part ..",
        "/etc/passwd | /etc/passwd | is absolute",
        "C:/x | C:/x | is absolute",
        "a\\\\b | a\\b | has a backslash",
        "a\\u0000b | a\\u0000b | has a NUL",
        "a//b | a//b | has an empty part",
        "a/ | a/ | has an empty part",
        "./a | ./a | has a part .",
        "`` | `` | is empty",
        ". | . | has a part ."
    })
    void refusesPathsThatLeaveTheDirectory(String name, String shown, String problem) {
        List<Entry> entries = List.of(Entry.of("ok", text("a")), Entry.of(name, text("a")));
        IntegrityException refusal = refusal(() -> ofEntries(entries, FILES));
        assertThat(refusal).hasMessage("model.sig: statement: predicate: resources: expected plain relative paths, got \""
                + shown + "\", which " + problem + "; do not use this model");
        assertThat(refusal.code()).isEqualTo("MODEL_STATEMENT_INVALID");
    }

    @Test
    void refusesNamesThatAreTwoOrTheSame() {
        Entry a = Entry.of("a", text("a"));
        assertThat(refusal(() -> ofEntries(List.of(a, a), FILES))).hasMessage(
                "model.sig: statement: predicate: resources: expected every file once, got \"a\" twice; sign again");
        List<Entry> alike = List.of(Entry.of("\\u00e9", text("a")), Entry.of("e\\u0301", text("b")));
        assertThat(refusal(() -> ofEntries(alike, FILES)).getMessage())
                .startsWith("model.sig: statement: predicate: resources: expected one spelling of \"")
                .endsWith("\", got two that look alike; do not use this model");
        List<Entry> dot = List.of(Entry.of(".:0:1", text("a")), Entry.of("b:0:1", text("b")));
        assertThat(refusal(() -> ofEntries(dot, SHARDS))).hasMessage(
                "model.sig: statement: predicate: resources: expected \".\" alone, got other files beside it; do not use this model");
    }

    @ParameterizedTest
    @CsvSource({
        "a, 'resources[0]: name: expected path:start:end, got \"a\"; sign again'",
        "a:1, 'resources[0]: name: expected path:start:end, got \"a:1\"; sign again'",
        "a:00:1, 'resources[0]: name: expected path:start:end, got \"a:00:1\"; sign again'",
        "a:0:9999999999999999999, 'resources[0]: name: expected path:start:end, got \"a:0:9999999999999999999\"; sign again'",
        "a:1:2, 'resources: expected pieces of at most 4 bytes that follow one another, got \"a:1:2\" at 0; sign again'",
        "a:0:5, 'resources: expected pieces of at most 4 bytes that follow one another, got \"a:0:5\" at 0; sign again'",
        "a:3:2, 'resources: expected pieces of at most 4 bytes that follow one another, got \"a:3:2\" at 0; sign again'"
    })
    void refusesPiecesThatDoNotTile(String name, String message) {
        IntegrityException refusal = refusal(() -> ofEntries(List.of(Entry.of(name, text("a"))), SHARDS));
        assertThat(refusal).hasMessage("model.sig: statement: predicate: " + message);
        assertThat(refusal.code()).isEqualTo("MODEL_STATEMENT_INVALID");
    }

    @Test
    void refusesPiecesThatOverlap() {
        List<Entry> entries = new ArrayList<>(List.of(Entry.of("a:0:4", text("a")), Entry.of("a:3:6", text("b"))));
        assertThat(refusal(() -> ofEntries(entries, SHARDS))).hasMessage("model.sig: statement: predicate: resources:"
                + " expected pieces of at most 4 bytes that follow one another, got \"a:3:6\" at 4; sign again");
        assertThat(refusal(() -> ofEntries(entries, SHARDS.replace("4", "0")))).hasMessage(
                "model.sig: statement: predicate: serialization: shard_size: expected a positive number, got 0; sign again");
    }
}
