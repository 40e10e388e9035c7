package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Clock;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.List;
import java.util.Map;
import java.util.Set;
import millrace.engine.InvalidModelException;
import millrace.engine.LoadedFiles;
import millrace.engine.ModelCard;
import millrace.engine.ModelTrust;
import millrace.engine.WeightCheck;
import millrace.integrity.Digest;
import millrace.integrity.model.BundleSigner;
import millrace.integrity.model.ModelContents;
import millrace.integrity.model.ModelSigningKey;
import millrace.integrity.model.SignedModel;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ModelBundleCheckTest {
    private static final Clock CLOCK = Clock.fixed(Instant.parse("2026-11-30T00:00:00Z"), ZoneOffset.UTC);

    @TempDir
    Path directory;

    private final ModelSigningKey key = ModelSigningKey.generate("p256", new SecureRandom());
    private Path model;
    private Path pub;

    /// What an engine says to have read, whatever the disk has.
    private record Read(Path model, Map<String, byte[]> contents) implements LoadedFiles {
        @Override
        public List<ModelCard.FileDigest> files() {
            return contents.entrySet().stream().sorted(Map.Entry.comparingByKey())
                    .map(file -> new ModelCard.FileDigest(
                            file.getKey(), file.getValue().length, Digest.sha256(file.getValue()).hex()))
                    .toList();
        }

        @Override
        public String sha256(String file, long from, long to) {
            return Digest.sha256(java.util.Arrays.copyOfRange(contents.get(file), (int) from, (int) to)).hex();
        }
    }

    @BeforeEach
    void signModel() throws IOException {
        model = Files.createDirectory(directory.resolve("model"));
        pub = directory.resolve("key.pem");
        Files.writeString(pub, key.publicPem());
        Files.write(model.resolve("config.json"), new byte[] {1});
        Files.write(model.resolve("w.safetensors"), new byte[] {1, 2, 3, 4, 5});
        Files.write(model.resolve("readme"), new byte[] {9});
        sign(0);
    }

    private void sign(long shards) throws IOException {
        Files.write(model.resolve("model.sig"), BundleSigner.sign(key, "model", ModelContents.of(model), Set.of("model.sig"),
                shards, 1, SignedModel.Progress.NONE));
    }

    private WeightCheck check(String mode) {
        return ModelBundleCheck.of(mode, pub.toString(), "", CLOCK);
    }

    private Read good() {
        return new Read(model, Map.of("config.json", new byte[] {1}, "w.safetensors", new byte[] {1, 2, 3, 4, 5}));
    }

    private Read swapped() {
        return new Read(model, Map.of("config.json", new byte[] {1}, "w.safetensors", new byte[] {1, 2, 7, 4, 5}));
    }

    private void refuse(String mode, LoadedFiles loaded, String code, String message) {
        assertThatThrownBy(() -> check(mode).check(loaded)).isInstanceOf(InvalidModelException.class)
                .hasMessage(message).extracting("code").isEqualTo(code);
    }

    @Test
    void verifiesWhatWasRead() throws IOException {
        for (long shards : new long[] {0, 2}) {
            sign(shards);
            ModelTrust trust = check("auto").check(good());
            assertThat(trust.mode()).isEqualTo("require");
            assertThat(trust.verified()).isTrue();
            assertThat(trust.problems()).isEmpty();
            assertThat(trust.keyHint()).isEqualTo(key.hint());
            assertThat(trust.root()).hasSize(64);
            assertThat(trust.bundleSha256()).isEqualTo(Digest.sha256(Files.readAllBytes(model.resolve("model.sig"))).hex());
            assertThat(ModelBundleCheck.describe(trust)).isEqualTo(
                    "signature of the model: every file verified, key " + key.hint() + ", root " + trust.root());
        }
    }

    /// The disk has the signed bytes; what was read has not.
    @Test
    void refusesBytesThatAreNotThoseOfTheDisk() throws IOException {
        refuse("require", swapped(), "MODEL_FILE_MISMATCH", "w.safetensors: expected sha256 "
                + Digest.sha256(new byte[] {1, 2, 3, 4, 5}).hex() + ", got " + Digest.sha256(new byte[] {1, 2, 7, 4, 5}).hex()
                + "; fetch the file again");
        sign(2);
        refuse("require", swapped(), "MODEL_FILE_MISMATCH", "w.safetensors: bytes 2 to 4: expected sha256 "
                + Digest.sha256(new byte[] {3, 4}).hex() + ", got " + Digest.sha256(new byte[] {7, 4}).hex()
                + "; fetch the file again");
    }

    @Test
    void refusesFilesTooManyAndTooFew() throws IOException {
        Files.delete(model.resolve("readme"));
        refuse("require", good(), "MODEL_FILE_MISSING", "readme: expected the signed file, got none; fetch the model again");
        Files.write(model.resolve("readme"), new byte[] {8});
        assertThat(check("require").check(good()).verified()).as("nothing depends on it").isTrue();
        Files.write(model.resolve("more"), new byte[1]);
        Files.write(model.resolve("and.more"), new byte[1]);
        refuse("require", good(), "MODEL_FILE_UNSIGNED", "and.more: expected signed files only, got one that the signature does"
                + " not list; remove it, or sign the model again; and 1 more, which `millrace model verify` lists");
    }

    @Test
    void refusesToReadWhatSignaturesLeaveOut() throws IOException {
        Files.write(model.resolve(".gitignore"), new byte[1]);
        assertThat(check("require").check(good()).verified()).isTrue();
        Read read = new Read(model, Map.of(".gitignore", new byte[1]));
        refuse("require", read, "MODEL_FILE_UNSIGNED", ".gitignore: expected signed files only, got one that the signature does"
                + " not list; remove it, or sign the model again");
    }

    @Test
    void refusesWithoutABundleOrKey() throws IOException {
        Files.delete(model.resolve("model.sig"));
        refuse("require", good(), "MODEL_BUNDLE_MISSING", model.resolve("model.sig")
                + ": expected the model's signature bundle, got no file; sign the model, or say where its bundle is");
        assertThatThrownBy(() -> ModelBundleCheck.of("require", "", "")).isInstanceOf(IllegalArgumentException.class)
                .hasMessage("engine.model.key: expected a public key with engine.model.verify=require, got nothing; name the PEM"
                        + " file that the model is signed with, or a directory of them");
        assertThat(ModelBundleCheck.of("auto", "", "")).isSameAs(WeightCheck.NONE);
        assertThat(ModelBundleCheck.of("off", pub.toString(), "")).isSameAs(WeightCheck.NONE);
        assertThat(ModelBundleCheck.describe(ModelTrust.OFF))
                .isEqualTo("signature of the model: not asked for (engine.model.verify, engine.model.key)");
    }

    @Test
    void warnsAndGoesOn() throws IOException {
        Files.write(model.resolve("more"), new byte[1]);
        ModelTrust trust = check("warn").check(swapped());
        assertThat(trust.verified()).isFalse();
        assertThat(trust.mode()).isEqualTo("warn");
        assertThat(trust.keyHint()).isEqualTo(key.hint());
        assertThat(trust.problems()).hasSize(2);
        assertThat(trust.problems().get(0)).startsWith("MODEL_FILE_MISMATCH: w.safetensors: ");
        assertThat(trust.problems().get(1)).startsWith("MODEL_FILE_UNSIGNED: more: ");
        assertThat(ModelBundleCheck.describe(trust)).isEqualTo("signature of the model: NOT VERIFIED, and served all the same"
                + " (engine.model.verify=warn): " + trust.problems().get(0) + "; " + trust.problems().get(1));
        Files.write(model.resolve("model.sig"), new byte[] {'{'});
        ModelTrust none = check("warn").check(good());
        assertThat(none.verified()).isFalse();
        assertThat(none.root()).isEmpty();
        assertThat(none.problems()).singleElement().asString().startsWith("MODEL_BUNDLE_PARSE: ");
    }

    @Test
    void findsABundleElsewhere() throws IOException {
        Path bundle = directory.resolve("elsewhere.sig");
        Files.move(model.resolve("model.sig"), bundle);
        WeightCheck check = ModelBundleCheck.of("require", pub.toString(), bundle.toString(), CLOCK);
        assertThat(check.check(good()).verified()).isTrue();
    }
}
