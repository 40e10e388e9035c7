package millrace.integrity.model;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyPair;
import java.security.SecureRandom;
import java.security.spec.X509EncodedKeySpec;
import java.time.Instant;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import millrace.integrity.IntegrityException;
import millrace.integrity.model.Layouts.Entry;
import millrace.integrity.model.Layouts.Version;
import millrace.integrity.model.ModelReport.State;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Damaged input, in numbers, from seeds that a failure prints.
class ModelFuzzTest {
    private static final long SEED = 20261130;
    private static final KeyPair KEY = Layouts.key("secp256r1");

    @TempDir
    Path directory;

    private TrustStore trust() throws IOException {
        Path file = directory.resolve("key.pem");
        Files.writeString(file, Layouts.pem(KEY));
        return TrustStore.load(file);
    }

    private static List<Entry> entries(Map<String, byte[]> files) {
        return files.entrySet().stream().map(file -> Entry.of(file.getKey(), file.getValue())).toList();
    }

    /// Each of ten thousand flipped bits of a model is found, in the file that it is in and nowhere else.
    @Test
    void findsEveryFlippedBit() throws IOException {
        Random random = new Random(SEED);
        Map<String, byte[]> files = new LinkedHashMap<>();
        for (int i = 0; i < 6; i++) {
            byte[] bytes = new byte[1 + random.nextInt(2000)];
            random.nextBytes(bytes);
            files.put(i % 2 == 0 ? "part/w" + i : "w" + i, bytes);
        }
        String whole = Layouts.statement(Version.V1_1_0, "m", entries(files));
        SignedModel signed = SignedModel.verify(bundle(whole), trust(), Instant.now());
        List<String> names = List.copyOf(files.keySet());
        for (int i = 0; i < 10_000; i++) {
            String name = names.get(random.nextInt(names.size()));
            byte[] bytes = files.get(name);
            int bit = random.nextInt(8 * bytes.length);
            bytes[bit / 8] ^= (byte) (1 << bit % 8);
            ModelReport report = signed.check(new Layouts.Memory(files), Set.of(), 1, SignedModel.Progress.NONE);
            bytes[bit / 8] ^= (byte) (1 << bit % 8);
            assertThat(report.files().stream().filter(file -> file.state() == State.MISMATCH).map(ModelReport.FileReport::path))
                    .as("seed %d, flip %d: bit %d of %s", SEED, i, bit, name).containsExactly(name);
            assertThat(report.count(State.OK)).isEqualTo(names.size() - 1);
        }
        assertThat(signed.check(new Layouts.Memory(files), Set.of(), 1, SignedModel.Progress.NONE).holds()).isTrue();
    }

    private static ModelBundle bundle(String payload) {
        return ModelBundle.parse(
                Layouts.bundle(Version.V1_1_0, KEY, "SHA256", payload).getBytes(StandardCharsets.UTF_8), "model.sig");
    }

    /// However a bundle is damaged: it is refused with a code of its own, or it still says what was signed.
    @Test
    void neverTakesADamagedBundleForAnother() throws IOException {
        TrustStore trust = trust();
        String payload = Layouts.statement(Version.V1_1_0, "m", List.of(Entry.of("a/b", new byte[3]), Entry.of("c", new byte[4])));
        ModelStatement statement = SignedModel.verify(bundle(payload), trust, Instant.now()).statement();
        Random random = new Random(SEED);
        int accepted = 0;
        for (Version version : Version.values()) {
            byte[] good = Layouts.bundle(version, KEY, "SHA256", payload).getBytes(StandardCharsets.UTF_8);
            for (int i = 0; i < 3000; i++) {
                byte[] bytes = Damage.of(good, random);
                try {
                    ModelBundle bundle = ModelBundle.parse(bytes, "model.sig");
                    assertThat(SignedModel.verify(bundle, trust, Instant.now()).statement())
                            .as("seed %d, %s, %d", SEED, version, i).isEqualTo(statement);
                    accepted++;
                } catch (IntegrityException refusal) {
                    assertThat(refusal.code()).as("seed %d, %s, %d", SEED, version, i).startsWith("MODEL_");
                    assertThat(refusal.getMessage()).doesNotContain("\n").hasSizeLessThan(1000);
                }
            }
        }
        // Only what nothing depends on, such as blanks, may change.
        assertThat(accepted).isBetween(1, 2500);
    }

    /// Statements that a trusted key did sign, yet nonsense: refused with a code, or with the properties that others rely on.
    @Test
    void keepsItsPromisesForAnyStatement() {
        Random random = new Random(SEED);
        String files = Layouts.statement(Version.V1_0_1, "m", List.of(Entry.of("a/b", new byte[3]), Entry.of("c", new byte[4])));
        List<Entry> pieces = List.of(Entry.of("c:0:4", new byte[4]), Entry.of("c:4:6", new byte[2]), Entry.of("d:0:1", new byte[1]));
        String shards = Layouts.statement("m", Layouts.root(pieces), pieces,
                "{\"method\": \"shards\", \"hash_type\": \"sha256\", \"shard_size\": 4, \"allow_symlinks\": false}");
        for (int i = 0; i < 20_000; i++) {
            byte[] bytes = Damage.of((i % 2 == 0 ? files : shards).getBytes(StandardCharsets.UTF_8), random);
            try {
                ModelStatement statement = ModelStatement.parse(bytes, "model.sig");
                assertThat(ModelStatement.rootOf(statement.resources())).isEqualTo(statement.root());
                for (ModelStatement.Resource one : statement.resources()) {
                    Path path = directory.resolve(one.path());
                    assertThat(path.normalize()).as("seed %d, %d", SEED, i).isEqualTo(path);
                    assertThat(path.startsWith(directory) && !path.equals(directory)).as("seed %d, %d", SEED, i).isTrue();
                    assertThat(one.end()).isGreaterThanOrEqualTo(-1);
                }
            } catch (IntegrityException refusal) {
                assertThat(refusal.code()).as("seed %d, %d", SEED, i).isIn(
                        "MODEL_STATEMENT_INVALID", "MODEL_ROOT_MISMATCH", "MODEL_BUNDLE_UNSUPPORTED");
            }
        }
    }

    /// Against the JDK's own reading of what stands between the lines.
    @Test
    void readsPublicKeysAsTheJdkDoes() {
        Random random = new Random(SEED);
        String good = "preamble\n" + Layouts.pem(KEY);
        for (int i = 0; i < 5000; i++) {
            String text = new String(Damage.of(good.getBytes(StandardCharsets.US_ASCII), random), StandardCharsets.ISO_8859_1);
            try {
                byte[] ours = EcKeys.parse(text, "key.pem", "MODEL_KEY_FORMAT").getEncoded();
                int from = text.indexOf("-----BEGIN PUBLIC KEY-----") + 26;
                byte[] der = Base64.getMimeDecoder().decode(text.substring(from, text.indexOf("-----END", from)));
                assertThat(KeyFactory.getInstance("EC").generatePublic(new X509EncodedKeySpec(der)).getEncoded())
                        .as("seed %d, %d", SEED, i).isEqualTo(ours);
            } catch (IntegrityException refusal) {
                assertThat(refusal.code()).isEqualTo("MODEL_KEY_FORMAT");
            } catch (java.security.GeneralSecurityException e) {
                throw new AssertionError("seed %d, %d: taken, and the JDK refuses it".formatted(SEED, i), e);
            }
        }
    }

    /// A damaged private key is refused, or it is a pair that signs and verifies.
    @Test
    void readsPrivateKeysOrRefusesThem() {
        Random random = new Random(SEED);
        ModelSigningKey key = ModelSigningKey.generate("p256", new SecureRandom());
        Path file = directory.resolve("key");
        String good;
        try {
            key.save(file);
            good = Files.readString(file);
        } catch (IOException e) {
            throw new AssertionError(e);
        }
        for (int i = 0; i < 3000; i++) {
            String text = new String(Damage.of(good.getBytes(StandardCharsets.US_ASCII), random), StandardCharsets.ISO_8859_1);
            try {
                assertThat(ModelSigningKey.parse(text, "key").publicPem()).as("seed %d, %d", SEED, i).isEqualTo(key.publicPem());
            } catch (IntegrityException refusal) {
                assertThat(refusal.code()).isEqualTo("MODEL_KEY_FORMAT");
            }
        }
    }

    /// A policy is read or refused, and under one that is read the key verifies, or is refused by the policy.
    @Test
    void readsAPolicyOrRefusesIt() throws IOException {
        Path keys = Files.createDirectory(directory.resolve("keys"));
        Files.writeString(keys.resolve("a.pem"), Layouts.pem(KEY));
        byte[] good = ("{\"format\": \"model-trust/v1\", \"keys\": [{\"hint\": \"" + Layouts.hint(KEY) + "\", \"models\": [\"m\", \"n*\"],"
                + " \"not_before\": \"2026-01-31T00:00:00Z\", \"not_after\": \"2036-01-31T00:00:00Z\", \"revoked\": false}]}")
                .getBytes(StandardCharsets.UTF_8);
        ModelBundle bundle = bundle(Layouts.statement(Version.V1_1_0, "m", List.of(Entry.of("a", new byte[1]))));
        Random random = new Random(SEED);
        int verified = 0;
        for (int i = 0; i < 3000; i++) {
            Files.write(keys.resolve("policy.json"), Damage.of(good, random));
            try {
                assertThat(SignedModel.verify(bundle, TrustStore.load(keys), Instant.parse("2026-11-30T00:00:00Z")).keyHint())
                        .isEqualTo(Layouts.hint(KEY));
                verified++;
            } catch (IntegrityException refusal) {
                assertThat(refusal.code()).as("seed %d, %d", SEED, i).isIn("MODEL_KEY_FORMAT", "MODEL_KEY_REFUSED");
            }
        }
        assertThat(verified).isGreaterThan(100);
    }

    /// Small ways to damage bytes: a flipped bit, a lost or doubled stretch, another character, a cut.
    private static final class Damage {
        private static final byte[] TELLING = "{}[]\",:\\/.0129-_=+ \n".getBytes(StandardCharsets.US_ASCII);

        static byte[] of(byte[] good, Random random) {
            byte[] bytes = good.clone();
            for (int n = 1 + random.nextInt(2); n > 0 && bytes.length > 2; n--) {
                int at = random.nextInt(bytes.length);
                int length = Math.min(bytes.length - at, 1 + random.nextInt(8));
                switch (random.nextInt(5)) {
                    case 0 -> bytes[at] ^= (byte) (1 << random.nextInt(8));
                    case 1 -> bytes[at] = TELLING[random.nextInt(TELLING.length)];
                    case 2 -> bytes = splice(bytes, at, length, 0);
                    case 3 -> bytes = splice(bytes, at, length, 2);
                    default -> bytes = java.util.Arrays.copyOf(bytes, random.nextInt(4) == 0 ? at : bytes.length);
                }
            }
            return bytes;
        }

        /// The stretch so many times in its place.
        private static byte[] splice(byte[] bytes, int at, int length, int times) {
            byte[] result = new byte[bytes.length + (times - 1) * length];
            System.arraycopy(bytes, 0, result, 0, at);
            for (int i = 0; i < times; i++) {
                System.arraycopy(bytes, at, result, at + i * length, length);
            }
            System.arraycopy(bytes, at + length, result, at + times * length, bytes.length - at - length);
            return result;
        }
    }
}
