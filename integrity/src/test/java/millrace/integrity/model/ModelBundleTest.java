package millrace.integrity.model;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyPair;
import java.util.Base64;
import java.util.List;
import millrace.integrity.IntegrityException;
import millrace.integrity.model.Layouts.Entry;
import millrace.integrity.model.Layouts.Version;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

class ModelBundleTest {
    private static final KeyPair KEY = Layouts.key("secp384r1");
    private static final String PAYLOAD = Layouts.statement(
            Version.V1_1_0, "m", List.of(Entry.of("a", "a".getBytes(StandardCharsets.UTF_8))));
    private static final String GOOD = Layouts.bundle(Version.V1_1_0, KEY, "SHA384", PAYLOAD);
    private static final String HINT = "{\"publicKey\": {\"hint\": \"" + Layouts.hint(KEY) + "\"}, \"tlogEntries\": []}";

    private static ModelBundle parse(String text) {
        return ModelBundle.parse(text.getBytes(StandardCharsets.UTF_8), "model.sig");
    }

    private static void refuse(String bundle, String code, String message) {
        assertThatThrownBy(() -> parse(bundle)).isInstanceOf(IntegrityException.class)
                .hasMessage("model.sig: " + message)
                .extracting("code").isEqualTo(code);
    }

    private static void refuseParse(String bundle, String message) {
        refuse(bundle, "MODEL_BUNDLE_PARSE", message);
    }

    private static void refuseUnsupported(String bundle, String message) {
        refuse(bundle, "MODEL_BUNDLE_UNSUPPORTED", message);
    }

    @ParameterizedTest
    @EnumSource(Version.class)
    void readsEveryLayout(Version version) {
        ModelBundle bundle = parse(Layouts.bundle(version, KEY, "SHA384", PAYLOAD));
        assertThat(bundle.hint()).isEqualTo(Layouts.hint(KEY));
        assertThat(bundle.payload()).asString(StandardCharsets.UTF_8).isEqualTo(PAYLOAD);
        assertThat(parse(GOOD).sha256().hex()).isEqualTo(Layouts.hex(GOOD.getBytes(StandardCharsets.UTF_8)));
    }

    /// The example of the envelope's specification, and lengths in bytes.
    @Test
    void framesWhatIsSigned() {
        assertThat(ModelBundle.signedBytes("é".getBytes(StandardCharsets.UTF_8))).asString(StandardCharsets.UTF_8)
                .isEqualTo("DSSEv1 28 application/vnd.in-toto+json 2 é");
    }

    @Test
    void readsBothAlphabets() {
        byte[] bytes = {(byte) 0xfb, (byte) 0xff, (byte) 0xfe};
        String url = Base64.getUrlEncoder().encodeToString(bytes);
        assertThat(url).contains("-");
        assertThat(parse(Layouts.bundle(HINT, PAYLOAD, bytes, "").replace(Layouts.base64(bytes), url)).signature())
                .isEqualTo(bytes);
    }

    @Test
    void refusesWhatIsNoBundle() throws IOException {
        refuseParse("", "expected strict JSON, got: No content to map due to end-of-input at line 1, column 0; fetch it again");
        refuseParse("[]", "expected a JSON object, got another value; fetch it again");
        refuseParse("{", "expected strict JSON, got: Unexpected end-of-input: expected close marker for Object at line 1,"
                + " column 2; fetch it again");
        refuseParse("{}", "mediaType: expected a string, got none");
        refuseParse(GOOD.replace("dsseEnvelope", "envelope"), "dsseEnvelope: expected an object, got none");
        refuseParse(GOOD.replace("\"payload\"", "\"load\""), "dsseEnvelope: payload: expected a string, got none");
        refuseParse(GOOD.replace("\"sig\"", "\"sign\""), "dsseEnvelope: signatures[0]: sig: expected a string, got none");
        refuseParse(GOOD.replaceAll("\"sig\": \"[^\"]*\"", "\"sig\": \"?\""),
                "dsseEnvelope: signatures[0]: sig: expected base64, got other text; sign again");
        refuseParse(GOOD.replaceAll("\"sig\": \"[^\"]*\"", "\"sig\": \"\""),
                "dsseEnvelope: signatures[0]: sig: expected base64, got nothing; sign again");
        refuseParse(GOOD.replace("\"dsse", "\"mediaType\": \"x\", \"dsse"), "expected strict JSON, got: Duplicate field"
                + " 'mediaType' at line 1, column " + (GOOD.indexOf("\"dsse") + 12) + "; fetch it again");
        refuseParse(GOOD.replace(HINT, "{}"), "verificationMaterial: expected one of publicKey, x509CertificateChain and"
                + " certificate, got none; sign again");
        refuseParse(GOOD.replace("{\"publicKey\"", "{\"certificate\": {}, \"publicKey\""),
                "verificationMaterial: expected one of publicKey, x509CertificateChain and certificate, got several; sign again");
        refuseParse(GOOD.replace("\"hint\"", "\"name\""),
                "verificationMaterial: publicKey: expected a hint or rawBytes, got neither; sign again");
        refuseParse(GOOD.replace(Layouts.hint(KEY), "ABC"),
                "verificationMaterial: publicKey: hint: expected 64 lower-case hexadecimal digits, got \"ABC\"; sign again");
        refuseParse(GOOD.replaceAll("\"hint\": \"[^\"]*\"", "\"rawBytes\": \"QUJD\""),
                "verificationMaterial: publicKey: rawBytes: expected a PEM block, got none; write one by openssl");
        byte[] large = " ".repeat((16 << 20) + 1).getBytes(StandardCharsets.UTF_8);
        assertThatThrownBy(() -> ModelBundle.parse(large, "model.sig"))
                .hasMessage("model.sig: expected at most 16777216 bytes, got 16777217")
                .extracting("code").isEqualTo("MODEL_BUNDLE_PARSE");
        assertThatThrownBy(() -> ModelBundle.parse(new byte[] {'{', (byte) 0xff, '}'}, "model.sig"))
                .hasMessage("model.sig: expected UTF-8, got other bytes; fetch it again");
    }

    @Test
    void refusesWhatIsMadeInAnotherWay() {
        refuseUnsupported(GOOD.replace("v0.3+json", "v0.1+json"), "mediaType: expected"
                + " application/vnd.dev.sigstore.bundle.v0.3+json, got application/vnd.dev.sigstore.bundle.v0.1+json;"
                + " sign again with model_signing >= 1.0");
        refuseUnsupported(GOOD.replace("application/vnd.in-toto+json", "text/plain"),
                "payloadType: expected application/vnd.in-toto+json, got text/plain; sign the model, not something else");
        refuseUnsupported(GOOD.replace("\"signatures\": [", "\"signatures\": [{}, "),
                "signatures: expected one, got 2; sign again with one key");
        refuseUnsupported(GOOD.replaceAll("\"signatures\": \\[.*]", "\"signatures\": []"),
                "signatures: expected one, got 0; sign again with one key");
        refuseUnsupported(GOOD.replace(HINT, "{\"x509CertificateChain\": {\"certificates\": []}}"), "expected a signature by a"
                + " public key, got the method certificate, which needs more than a key to check; sign with model_signing"
                + " sign key, or millrace model sign");
        refuseUnsupported(GOOD.replace(HINT, "{\"certificate\": {\"rawBytes\": \"\"}, \"tlogEntries\": [{}]}"), "expected a"
                + " signature by a public key, got the method sigstore, which needs more than a key to check; sign with"
                + " model_signing sign key, or millrace model sign");
        refuseUnsupported(GOOD.replace("\"tlogEntries\": []", "\"tlogEntries\": [{}]"),
                "tlogEntries: expected none beside a public key, got some; sign again with a key");
    }

    /// Version 0.2 signed other bytes; it is told apart before any key is asked for.
    @Test
    void refusesVersion02WithAdvice() {
        String payload = "{\"_type\": \"https://in-toto.io/Statement/v1\", \"subject\": [], \"predicateType\":"
                + " \"https://model_signing/Digests/v0.1\", \"predicate\": {\"unused\": \"\"}}";
        for (String material : List.of(HINT, "{\"x509CertificateChain\": {\"certificates\": []}}")) {
            refuseUnsupported(Layouts.bundle(material, payload, new byte[] {1}, ""), "predicateType: expected"
                    + " https://model_signing/signature/v1.0, got https://model_signing/Digests/v0.1 of model_signing 0.2;"
                    + " sign again with model_signing >= 1.0");
        }
    }

    @Test
    void saysThatThereIsNone(@TempDir Path directory) throws IOException {
        Path file = directory.resolve("model.sig");
        assertThatThrownBy(() -> ModelBundle.read(file)).isInstanceOf(IntegrityException.class)
                .hasMessage(file + ": expected the model's signature bundle, got no file; sign the model, or say where its"
                        + " bundle is")
                .extracting("code").isEqualTo("MODEL_BUNDLE_MISSING");
        Files.writeString(file, GOOD);
        assertThat(ModelBundle.read(file).hint()).isEqualTo(Layouts.hint(KEY));
    }
}
