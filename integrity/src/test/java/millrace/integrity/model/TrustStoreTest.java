package millrace.integrity.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.time.Instant;
import java.util.Base64;
import java.util.List;
import millrace.integrity.IntegrityException;
import millrace.integrity.model.Layouts.Entry;
import millrace.integrity.model.Layouts.Version;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TrustStoreTest {
    private static final KeyPair A = Layouts.key("secp256r1");
    private static final KeyPair B = Layouts.key("secp521r1");
    private static final Instant NOW = Instant.parse("2026-11-30T00:00:00Z");

    @TempDir
    Path directory;

    private static ModelBundle bundle(KeyPair key, String hash) {
        String payload = Layouts.statement(Version.V1_0_1, "GLM-4.5-Air", List.of(Entry.of("a", new byte[1])));
        return ModelBundle.parse(Layouts.bundle(Version.V1_0_1, key, hash, payload).getBytes(StandardCharsets.UTF_8), "model.sig");
    }

    private void write(String name, String text) throws IOException {
        Files.writeString(directory.resolve(name), text);
    }

    @Test
    void takesEveryKeyOfADirectory() throws IOException {
        write("a.pem", "EC key of A\n\n" + Layouts.pem(A));
        write("b.pub", Layouts.pem(B).replace("\n", "\r\n"));
        write("notes.txt", "no key");
        write(".hidden.pem", "no key");
        TrustStore store = TrustStore.load(directory);
        assertThat(SignedModel.verify(bundle(A, "SHA256"), store, NOW).keySource()).isEqualTo(directory.resolve("a.pem").toString());
        assertThat(SignedModel.verify(bundle(B, "SHA512"), store, NOW).keyHint()).isEqualTo(Layouts.hint(B));
    }

    @Test
    void refusesWhatIsNoKey() throws Exception {
        Path file = directory.resolve("key.pem");
        refuse(file, ": expected a public key in PEM or a directory of them, got nothing there; check the path");
        refuse(directory, ": expected files that end in .pem or .pub, got none; put the public keys there");
        write("key.pem", "no key");
        refuse(file, ": expected a PEM block, got none; write one by openssl");
        write("key.pem", "text before -----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n");
        refuse(file, ": expected a PEM block, got none; write one by openssl");
        write("key.pem", "-----BEGIN PUBLIC KEY-----\nAAAA\n");
        refuse(file, ": expected the end of its PEM block, got none; copy it whole");
        write("key.pem", "-----BEGIN PUBLIC KEY-----\nA?AA\n-----END PUBLIC KEY-----\n");
        refuse(file, ": expected base64 in its PEM block, got other text; copy it whole, without a passphrase");
        write("key.pem", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n");
        refuse(file, ": expected a public key on P-256, P-384 or P-521, got something else; use such a key");
        write("key.pem", Layouts.pem(A).replace("PUBLIC", "PRIVATE"));
        refuse(file, ": expected a block PUBLIC KEY, got PRIVATE KEY; write the public key by openssl ec -pubout");
        byte[] rsa = KeyPairGenerator.getInstance("RSA").generateKeyPair().getPublic().getEncoded();
        write("key.pem", "-----BEGIN PUBLIC KEY-----\n" + Base64.getMimeEncoder().encodeToString(rsa) + "\n-----END PUBLIC KEY-----\n");
        refuse(file, ": expected a public key on P-256, P-384 or P-521, got something else; use such a key");
        write("key.pem", "x".repeat((1 << 16) + 1));
        refuse(file, ": expected at most 65536 characters, got 65537");
    }

    private static void refuse(Path path, String message) {
        assertThatThrownBy(() -> TrustStore.load(path)).isInstanceOf(IntegrityException.class)
                .hasMessage(path + message).extracting("code").isEqualTo("MODEL_KEY_FORMAT");
    }

    private void policy(String rule) throws IOException {
        write("a.pem", Layouts.pem(A));
        write("policy.json", "{\"format\": \"model-trust/v1\", \"keys\": [{\"hint\": \"" + Layouts.hint(A) + "\", " + rule + "}]}");
    }

    private void refused(String rule, String problem) throws IOException {
        policy(rule);
        TrustStore store = TrustStore.load(directory);
        assertThatThrownBy(() -> SignedModel.verify(bundle(A, "SHA256"), store, NOW)).isInstanceOf(IntegrityException.class)
                .hasMessage(directory.resolve("a.pem") + ": " + problem + " by policy.json; sign with another key, or change the policy")
                .extracting("code").isEqualTo("MODEL_KEY_REFUSED");
    }

    @Test
    void keepsToThePolicy() throws IOException {
        refused("\"revoked\": true", "expected a key that is not revoked, got one that is");
        refused("\"not_before\": \"2026-12-01T00:00:00Z\"",
                "expected a time from 2026-12-01T00:00:00Z on, got 2026-11-30T00:00:00Z");
        refused("\"not_after\": \"2026-11-01T00:00:00Z\"",
                "expected a time up to 2026-11-01T00:00:00Z, got 2026-11-30T00:00:00Z");
        refused("\"models\": [\"GLM-4\", \"Kimi*\"]", "expected one of the models [GLM-4, Kimi*], got \"GLM-4.5-Air\"");
        policy("\"models\": [\"GLM-4.5*\"], \"not_before\": \"2026-11-30T00:00:00Z\", \"not_after\": \"2026-11-30T00:00:00Z\","
                + " \"revoked\": false");
        assertThat(SignedModel.verify(bundle(A, "SHA256"), TrustStore.load(directory), NOW).statement().model())
                .isEqualTo("GLM-4.5-Air");
    }

    @Test
    void refusesABrokenPolicy() throws IOException {
        policy("\"not_after\": \"tomorrow\"");
        refusePolicy("keys[0]: not_after: expected a time such as 2026-01-31T00:00:00Z, got \"tomorrow\"; correct it");
        policy("\"models\": \"GLM\"");
        refusePolicy("keys[0]: models: expected an array, got string");
        write("policy.json", "{\"format\": \"model-trust/v2\", \"keys\": []}");
        refusePolicy("format: expected model-trust/v1, got another; write the policy anew");
        write("policy.json", "{\"format\": \"model-trust/v1\", \"keys\": [{\"hint\": \"a\"}, {\"hint\": \"a\"}]}");
        refusePolicy("keys[1]: hint: expected each key once, got it twice; keep one of them");
    }

    private void refusePolicy(String message) {
        assertThatThrownBy(() -> TrustStore.load(directory)).isInstanceOf(IntegrityException.class)
                .hasMessage(directory.resolve("policy.json") + ": " + message)
                .extracting("code").isEqualTo("MODEL_KEY_FORMAT");
    }
}
