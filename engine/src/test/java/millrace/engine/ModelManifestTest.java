package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import millrace.engine.weights.ModelFiles;
import millrace.engine.weights.TensorManifest;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

final class ModelManifestTest {
    @TempDir
    Path dir;

    private Path model;

    @BeforeEach
    void copyModel() throws IOException {
        model = copy("glm-tiny");
    }

    private Path copy(String name) throws IOException {
        Path target = Files.createDirectories(dir.resolve(name));
        try (Stream<Path> files = Files.list(Path.of("../streams/src/main/resources/models", name))) {
            for (Path file : files.toList()) {
                Files.copy(file, target.resolve(file.getFileName()), StandardCopyOption.REPLACE_EXISTING);
            }
        }
        return target;
    }

    private static ModelManifest.Written write(Path model) {
        return ModelManifest.write(EngineConfig.of(model).withThreads(2), line -> {});
    }

    private static TensorManifest read(Path model) throws IOException {
        return TensorManifest.parse(Files.readAllBytes(model.resolve(ModelManifest.PATH)));
    }

    private static void replace(Path model, List<TensorManifest.Entry> entries) throws IOException {
        Files.write(model.resolve(ModelManifest.PATH), TensorManifest.of(entries, List.of()).toJson());
    }

    private static void load(Path model) {
        Engine.open(EngineConfig.of(model).withThreads(2).withKvBytes(64 << 20)).close();
    }

    private static void refuse(Path model, String code, String message) {
        assertThatThrownBy(() -> load(model)).isInstanceOf(InvalidModelException.class)
                .hasMessage(message).extracting("code").isEqualTo(code);
    }

    private static void flip(Path file, long at, int bit) {
        try (var access = new RandomAccessFile(file.toFile(), "rw")) {
            access.seek(at);
            int octet = access.read();
            access.seek(at);
            access.write(octet ^ 1 << bit);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Test
    void describesEveryTensorAndLoadsAgain() throws IOException {
        String before = ModelInspection.of(model, null).digest();
        ModelManifest.Written written = write(model);
        TensorManifest manifest = read(model);
        try (ModelFiles files = ModelFiles.open(model)) {
            assertThat(manifest.tensors()).extracting(TensorManifest.Entry::name)
                    .containsExactlyInAnyOrderElementsOf(files.tensorNames());
            assertThat(files.readFiles()).extracting(ModelCard.FileDigest::name).contains("integrity/tensors.json");
        }
        assertThat(written.tensors()).isEqualTo(manifest.tensors().size());
        assertThat(written.packed()).isZero();
        assertThat(manifest.golden()).hasSize(4).isEqualTo(written.golden());
        TensorManifest.Entry first = manifest.tensors().iterator().next();
        byte[] file = Files.readAllBytes(model.resolve(first.file()));
        byte[] bytes = Arrays.copyOfRange(file, (int) first.begin(), (int) first.end());
        var crc = new java.util.zip.CRC32C();
        crc.update(bytes, 0, Math.min(bytes.length, 1 << 20));
        assertThat(first.blocks()).startsWith((int) crc.getValue()).hasSize((bytes.length + (1 << 20) - 1) >> 20);
        assertThat(ModelInspection.of(model, null).digest()).as("decides nothing that is computed").isEqualTo(before);
        load(model);
    }

    /// The same answers from another backend, another number of threads, in one batch or alone.
    @Test
    void goldenAnswersHoldElsewhere() throws Exception {
        List<Golden> golden = write(model).golden();
        assertThat(golden.stream().map(Golden::tokensSha256).distinct()).hasSizeGreaterThan(1);
        EngineConfig config = EngineConfig.of(model).withBackend("scalar").withThreads(1).withKvBytes(64 << 20);
        try (Engine engine = Engine.open(config)) {
            for (Golden one : golden) {
                assertThat(one.appliesTo(engine.card())).isTrue();
                var end = new CompletableFuture<GenerationResult>();
                engine.submit(engine.prepare(GenerationRequest.greedy(
                        "g", new PromptInput.TokenIds(one.promptIds()), one.maxTokens())), end::complete);
                assertThat(Golden.digest(end.get().tokenIds())).isEqualTo(one.tokensSha256());
            }
        }
        try (Engine engine = Engine.open(config.withKvFormat(KvFormat.F32))) {
            assertThat(golden).noneMatch(one -> one.appliesTo(engine.card()));
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {2, 32, 65536})
    void promptsLieWithinTheVocabulary(int vocabSize) {
        for (int i = 0; i < 4; i++) {
            assertThat(ModelManifest.prompt(i, vocabSize)).hasSize(12).allMatch(id -> id >= 0 && id < vocabSize);
        }
    }

    @Test
    void isWrittenAnewOverOneOfOtherWeights() throws IOException {
        write(model);
        String first = Files.readString(model.resolve(ModelManifest.PATH));
        TensorManifest.Entry entry = read(model).tensors().iterator().next();
        flip(model.resolve(entry.file()), entry.begin(), 0);
        write(model);
        assertThat(Files.readString(model.resolve(ModelManifest.PATH))).isNotEqualTo(first);
        load(model);
        // One that cannot be read is no reason to keep it.
        Files.writeString(model.resolve(ModelManifest.PATH), "no JSON");
        write(model);
        load(model);
        try (Stream<Path> left = Files.list(model.resolve("integrity"))) {
            assertThat(left).containsExactly(model.resolve(ModelManifest.PATH));
        }
    }

    @Test
    void staysIfNoneCanBeWritten() throws IOException {
        write(model);
        byte[] first = Files.readAllBytes(model.resolve(ModelManifest.PATH));
        Files.delete(model.resolve("config.json"));
        assertThatThrownBy(() -> write(model)).isInstanceOf(InvalidModelException.class);
        assertThat(model.resolve(ModelManifest.PATH)).hasBinaryContent(first);
    }

    @Test
    void findsFlippedBitsOfWeights() throws IOException {
        write(model);
        TensorManifest.Entry entry = List.copyOf(read(model).tensors()).get(3);
        Path file = model.resolve(entry.file());
        flip(file, entry.end() - 1, 7);
        assertThatThrownBy(() -> load(model)).isInstanceOf(InvalidModelException.class)
                .hasMessageMatching("%s: %s, bytes %d to %d: expected the checksum [0-9a-f]{8} by integrity/tensors.json, got [0-9a-f]{8}; fetch the file again"
                        .formatted(entry.file(), entry.name(), entry.begin(), entry.end()))
                .extracting("code").isEqualTo("MODEL_TENSOR_MISMATCH");
        flip(file, entry.end() - 1, 7);
        load(model);
    }

    /// Thousands of flipped bits on the disk, in every file that an engine reads: refused when it is opened, or another
    /// digest for whoever vouches, and damaged weights are refused by the manifest too.
    @Test
    void findsEveryFlippedBitOfEveryFile() throws IOException {
        Path tiny = TinyModel.of("llama").write(Files.createDirectory(dir.resolve("tiny")));
        Files.createDirectories(tiny.resolve("integrity"));
        Files.write(tiny.resolve(ModelManifest.PATH), manifest(tiny).toJson());
        List<ModelCard.FileDigest> reference;
        try (ModelFiles files = ModelFiles.open(tiny)) {
            files.requireListed();
            reference = files.readFiles();
        }
        long seed = 20261130;
        var random = new java.util.Random(seed);
        for (int i = 0; i < 3_000; i++) {
            ModelCard.FileDigest file = reference.get(random.nextInt(reference.size()));
            long at = random.nextLong(file.bytes());
            int bit = random.nextInt(8);
            flip(tiny.resolve(file.name()), at, bit);
            try (ModelFiles files = ModelFiles.open(tiny)) {
                assertThat(files.readFiles()).as("seed %d, %d: bit %d of byte %d of %s", seed, i, bit, at, file.name())
                        .isNotEqualTo(reference);
                if (file.name().endsWith(".safetensors")) {
                    assertThatThrownBy(files::requireListed).as("seed %d, %d", seed, i).isInstanceOf(InvalidModelException.class);
                }
            } catch (InvalidModelException refused) {
                assertThat(refused.code()).isNotEmpty();
            }
            flip(tiny.resolve(file.name()), at, bit);
        }
    }

    @Test
    void refusesAManifestOfAnotherModel() throws IOException {
        Path other = copy("kimi-tiny");
        write(other);
        Files.createDirectories(model.resolve("integrity"));
        Files.copy(other.resolve(ModelManifest.PATH), model.resolve(ModelManifest.PATH));
        assertThatThrownBy(() -> load(model)).isInstanceOf(InvalidModelException.class)
                .hasMessageStartingWith("integrity/tensors.json: \"").hasMessageEndingWith(
                        "; it is of another model: sign this one anew, or remove the file")
                .extracting("code").isEqualTo("BT_FOREIGN");
        write(model);
        List<TensorManifest.Entry> entries = new ArrayList<>(read(model).tensors());
        TensorManifest.Entry last = entries.removeLast();
        replace(model, entries);
        refuse(model, "BT_FOREIGN", "integrity/tensors.json: \"%s\": expected %s %s in bytes %d to %d of %s as the weights have it, got no such tensor; it is of another model: sign this one anew, or remove the file"
                .formatted(last.name(), last.dtype(), Arrays.toString(last.shape()), last.begin(), last.end(), last.file()));
        entries.add(last);
        entries.add(new TensorManifest.Entry("more", last.dtype(), last.shape(), last.file(), last.begin(), last.end(),
                last.sha256(), last.blocks(), null));
        replace(model, entries);
        refuse(model, "BT_FOREIGN", "integrity/tensors.json: \"more\": expected no such tensor as the weights have it, got one;"
                + " it is of another model: sign this one anew, or remove the file");
    }

    /// Stored and decoded numbers of packed weights: the first prove the disk, the second the decoder.
    @Test
    void holdsPackedTensorsToWhatTheyDecodeTo() throws IOException {
        Path packed = dir.resolve("packed");
        ModelPacker.pack(model, "packed", packed, (done, total) -> {});
        ModelManifest.Written written = write(packed);
        assertThat(written.packed()).isPositive().isLessThan(written.tensors());
        load(packed);
        List<TensorManifest.Entry> entries = new ArrayList<>(read(packed).tensors());
        int i = 0;
        while (entries.get(i).decoded() == null) {
            i++;
        }
        TensorManifest.Entry entry = entries.get(i);
        TensorManifest.Decoded decoded = entry.decoded();
        assertThat(decoded.bytes()).isGreaterThan(entry.end() - entry.begin());
        int[] sums = decoded.blocks();
        sums[sums.length - 1] ^= 1;
        entries.set(i, with(entry, new TensorManifest.Decoded(decoded.bytes(), decoded.blockBytes(), sums)));
        replace(packed, entries);
        refuse(packed, "MODEL_TENSOR_DECODED", "weights: %s, rows from %d: expected numbers with the checksum %08x by integrity/tensors.json, got %08x; start again, and replace this machine if it returns"
                .formatted(entry.name(), 16 * (sums.length - 1), sums[sums.length - 1], sums[sums.length - 1] ^ 1));
        // As many blocks, of another shape.
        entries.set(i, with(entry, new TensorManifest.Decoded(decoded.bytes() - 1, decoded.blockBytes(), decoded.blocks())));
        replace(packed, entries);
        assertThatThrownBy(() -> load(packed)).isInstanceOf(InvalidModelException.class)
                .hasMessageStartingWith("integrity/tensors.json: " + entry.name() + ": expected ")
                .extracting("code").isEqualTo("BT_FOREIGN");
    }

    private static TensorManifest.Entry with(TensorManifest.Entry entry, TensorManifest.Decoded decoded) {
        return new TensorManifest.Entry(entry.name(), entry.dtype(), entry.shape(), entry.file(), entry.begin(), entry.end(),
                entry.sha256(), entry.blocks(), decoded);
    }

    // ----------------------------------------------------------------- what happens between hashing and computing

    /// A file written to after its digest was vouched for: the bytes that are computed with are others, and found.
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void findsAFileThatChangesBetweenItsDigestAndItsUse(boolean listed) throws IOException {
        TensorManifest.Entry entry = List.copyOf(manifest(model).tensors()).get(5);
        if (listed) {
            write(model);
        }
        WeightCheck intruder = loaded -> {
            assertThat(loaded.files()).isNotEmpty();
            flip(model.resolve(entry.file()), entry.begin(), 3);
            return ModelTrust.OFF;
        };
        EngineConfig config = EngineConfig.of(model).withThreads(2).withKvBytes(64 << 20);
        assertThatThrownBy(() -> Engine.open(config, intruder)).isInstanceOf(InvalidModelException.class)
                .hasMessageStartingWith("%s: %s, bytes %d to ".formatted(entry.file(), entry.name(), entry.begin()))
                .hasMessageEndingWith("; do not write to a model directory in use, start again")
                .extracting("code").isEqualTo("MODEL_FILE_CHANGED");
    }

    /// A header that is written to is not read again: what was parsed is what was hashed.
    @Test
    void hashesTheHeaderThatItParsed() throws IOException {
        Path file = model.resolve("model.safetensors");
        byte[] bytes = Files.readAllBytes(file);
        try (ModelFiles files = ModelFiles.open(model)) {
            flip(file, 9, 0);
            String expected = ModelFiles.sha256(file);
            flip(file, 9, 0);
            flip(file, 9, 0);
            assertThat(files.digests()).filteredOn(one -> one.name().equals("model.safetensors")).singleElement()
                    .extracting(ModelCard.FileDigest::sha256).isNotEqualTo(expected);
            flip(file, 9, 0);
            assertThat(files.sha256("model.safetensors", 0, bytes.length)).isEqualTo(ModelFiles.sha256(file));
            assertThat(files.sha256("model.safetensors", 5, 100)).isEqualTo(sha256(Arrays.copyOfRange(bytes, 5, 100)));
            byte[] config = Files.readAllBytes(model.resolve("config.json"));
            assertThat(files.sha256("config.json", 1, 7)).isEqualTo(sha256(Arrays.copyOfRange(config, 1, 7)));
        }
    }

    /// Another file under the same name: the one that was opened is what is hashed and computed with.
    @Test
    void staysWithTheFileThatItOpened() throws IOException {
        String digest = ModelInspection.of(model, null).digest();
        WeightCheck intruder = loaded -> {
            try {
                Path other = Files.write(dir.resolve("other"), new byte[100]);
                Files.move(other, model.resolve("model.safetensors"), StandardCopyOption.REPLACE_EXISTING);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
            return ModelTrust.OFF;
        };
        EngineConfig config = EngineConfig.of(model).withThreads(2).withKvBytes(64 << 20);
        try (Engine engine = Engine.open(config, intruder)) {
            assertThat(engine.card().modelDigest()).isEqualTo(digest);
        }
    }

    private static TensorManifest manifest(Path model) {
        try (ModelFiles files = ModelFiles.open(model)) {
            return files.list(tensor -> null, List.of());
        }
    }

    private static String sha256(byte[] bytes) {
        try {
            return java.util.HexFormat.of().formatHex(java.security.MessageDigest.getInstance("SHA-256").digest(bytes));
        } catch (java.security.NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }
}
