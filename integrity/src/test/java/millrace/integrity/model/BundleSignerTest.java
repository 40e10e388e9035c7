package millrace.integrity.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import millrace.integrity.IntegrityException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class BundleSignerTest {
    private static final SecureRandom RANDOM = new SecureRandom();

    @TempDir
    Path directory;

    private static byte[] text(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private SignedModel verified(ModelSigningKey key, byte[] bundle) throws IOException {
        Path pem = directory.resolve("key.pub");
        Files.writeString(pem, key.publicPem());
        return SignedModel.verify(ModelBundle.parse(bundle, "model.sig"), TrustStore.load(pem), Instant.now());
    }

    @ParameterizedTest
    @CsvSource({"p256, 0", "p384, 0", "p521, 0", "p256, 4"})
    void signsWhatItVerifies(String curve, long shards) throws IOException {
        ModelSigningKey key = ModelSigningKey.generate(curve, RANDOM);
        Layouts.Memory files = new Layouts.Memory(Map.of(
                "config.json", text("{}"), "w", text("123456789"), "sub/x", text("x"), "model.sig", text("old"),
                ".git/HEAD", text("ref"), "empty", text("")));
        AtomicLong hashed = new AtomicLong();
        byte[] bundle = BundleSigner.sign(key, "m", files, Set.of("model.sig"), shards, 2,
                (done, total) -> hashed.accumulateAndGet(done, Math::max));
        assertThat(hashed).hasValue(12);
        SignedModel signed = verified(key, bundle);
        assertThat(signed.keyHint()).isEqualTo(key.hint()).isEqualTo(Layouts.hex(text(key.publicPem())));
        ModelReport report = signed.check(files, Set.of("model.sig"), 2, SignedModel.Progress.NONE);
        assertThat(report.problems()).isEmpty();
        assertThat(signed.statement().ignored())
                .containsExactly(".git", ".gitattributes", ".github", ".gitignore", "model.sig");
        assertThat(signed.statement().resources()).extracting(ModelStatement.Resource::name).isEqualTo(shards == 0
                ? List.of("config.json", "empty", "sub/x", "w")
                : List.of("config.json:0:2", "sub/x:0:1", "w:0:4", "w:4:8", "w:8:9"));
    }

    /// Part by part, by code points: where text as a whole, or UTF-16, would order otherwise.
    @Test
    void ordersAsTheToolDoes() {
        List<String> ordered = List.of("a", "a/b", "a/b-c", "a-b", "a.b", "onnx/model.onnx", "onnx-config.json", "\uffee", "\ud83d\ude00");
        assertThat(ordered.reversed().stream().sorted(BundleSigner.BY_PARTS)).containsExactlyElementsOf(ordered);
    }

    @Test
    void signsNoOddFile() throws IOException {
        ModelSigningKey key = ModelSigningKey.generate("p256", RANDOM);
        Files.createDirectories(directory.resolve("m"));
        Files.createSymbolicLink(directory.resolve("m/link"), directory.resolve("else"));
        refuse(key, ModelContents.of(directory.resolve("m")), "link: expected a regular file with a plain name, got a symbolic"
                + " link; replace it, or move it out of the model");
        refuse(key, new Layouts.Memory(Map.of("a\\b", new byte[1])), "a\\b: expected a regular file with a plain name, got a name"
                + " that has a backslash; replace it, or move it out of the model");
        refuse(key, new Layouts.Memory(Map.of()), "m: expected files, got none; name the model's directory");
    }

    private static void refuse(ModelSigningKey key, ModelContents contents, String message) {
        assertThatThrownBy(() -> BundleSigner.sign(key, "m", contents, Set.of(), 0, 1, SignedModel.Progress.NONE))
                .isInstanceOf(IntegrityException.class).hasMessage(message)
                .extracting("code").isEqualTo("MODEL_FILE_UNSIGNABLE");
    }

    @ParameterizedTest
    @ValueSource(strings = {"p256", "p384", "p521"})
    void keepsAKeyInAFileForItsOwnerAlone(String curve) throws IOException {
        assumeThat(directory.getFileSystem().supportedFileAttributeViews()).contains("posix");
        Path file = directory.resolve("keys/model.key");
        ModelSigningKey made = ModelSigningKey.generate(curve, RANDOM);
        made.save(file);
        assertThat(PosixFilePermissions.toString(Files.getPosixFilePermissions(file))).isEqualTo("rw-------");
        assertThat(ModelSigningKey.load(file).publicPem()).isEqualTo(made.publicPem());
        assertThatThrownBy(() -> made.save(file)).isInstanceOf(FileAlreadyExistsException.class);
        Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-r--r--"));
        assertThatThrownBy(() -> ModelSigningKey.load(file)).isInstanceOf(IntegrityException.class)
                .hasMessage("key file " + file + ": mode: expected rw------- or less, got rw-r--r--; make a new key, or run chmod 600")
                .extracting("code").isEqualTo("KEY_FILE_MODE");
    }

    /// Keys as OpenSSL writes them, in its newer and its older form, and what it makes of a signature of ours.
    @ParameterizedTest
    @CsvSource({"prime256v1, -sha256", "secp384r1, -sha384", "secp521r1, -sha512"})
    void agreesWithOpenSsl(String curve, String hash) throws Exception {
        assumeThat(Stream.of("/usr/bin/openssl", "/usr/local/bin/openssl", "/opt/homebrew/bin/openssl").map(Path::of))
                .anyMatch(Files::isExecutable);
        Path newer = directory.resolve("newer.pem");
        Path older = directory.resolve("older.pem");
        Path pub = directory.resolve("public.pem");
        openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:" + curve, "-out", newer.toString());
        openssl("ec", "-in", newer.toString(), "-out", older.toString());
        openssl("ec", "-in", newer.toString(), "-pubout", "-out", pub.toString());
        for (Path file : List.of(newer, older)) {
            Files.setPosixFilePermissions(file, PosixFilePermissions.fromString("rw-------"));
            ModelSigningKey key = ModelSigningKey.load(file);
            assertThat(key.publicPem()).isEqualTo(Files.readString(pub));
            Path signature = directory.resolve("signature");
            Path message = Files.write(directory.resolve("message"), text("signed"));
            Files.write(signature, key.sign(text("signed")));
            openssl("dgst", hash, "-verify", pub.toString(), "-signature", signature.toString(), message.toString());
        }
        Path made = directory.resolve("made.key");
        ModelSigningKey.generate("p384", RANDOM).save(made);
        openssl("ec", "-in", made.toString(), "-check", "-noout");
    }

    private void openssl(String... arguments) throws Exception {
        List<String> command = Stream.concat(Stream.of("openssl"), Stream.of(arguments)).toList();
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(process.waitFor(30, TimeUnit.SECONDS)).isTrue();
        assertThat(process.exitValue()).as(command + "\n" + output).isZero();
    }

    @Test
    void refusesWhatIsNoKey() {
        refuse("no key", "expected a PEM block, got none; write one by openssl");
        refuse("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n", "expected a block PRIVATE KEY"
                + " or EC PRIVATE KEY, got ENCRYPTED PRIVATE KEY; give the private key, without a passphrase");
        refuse("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
                "expected a key in DER, got other bytes; copy the file whole");
        // As the JDK writes keys: without the public point.
        String bare = EcKeys.Pem.text("PRIVATE KEY", Layouts.key("secp256r1").getPrivate().getEncoded());
        refuse(bare, "expected the public point in the key, got none; write it by openssl ec -in KEY -out KEY2");
    }

    private static void refuse(String pem, String message) {
        assertThatThrownBy(() -> ModelSigningKey.parse(pem, "key.pem")).isInstanceOf(IntegrityException.class)
                .hasMessage("key.pem: " + message).extracting("code").isEqualTo("MODEL_KEY_FORMAT");
    }
}
