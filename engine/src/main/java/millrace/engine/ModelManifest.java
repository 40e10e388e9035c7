package millrace.engine;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.function.Consumer;
import millrace.engine.checkpoint.LinearTensor;
import millrace.engine.checkpoint.LinearTensors;
import millrace.engine.kernel.Backend;
import millrace.engine.model.ModelConfig;
import millrace.engine.model.TensorExpectation;
import millrace.engine.weights.ModelFiles;
import millrace.engine.weights.TensorManifest;

/// Writes `integrity/tensors.json` into a model's directory: every tensor's digests, and prompts with their answers.
///
/// An engine that loads the directory holds every block to it, and its canary the answers. A signature of the directory
/// covers it.
public final class ModelManifest {
    /// Where it lies in a model's directory.
    public static final String PATH = TensorManifest.PATH;

    private static final int PROMPTS = 4;
    private static final int PROMPT_TOKENS = 12;
    private static final int ANSWER_TOKENS = 24;
    /// Enough for the prompts of any model; a large one needs the memory for itself.
    private static final long KV_BYTES = 256L << 20;
    private static final long STEP = 0x9E3779B97F4A7C15L;

    private ModelManifest() {}

    /// What was written.
    public record Written(int tensors, int packed, long bytes, List<Golden> golden) {
        public Written {
            golden = List.copyOf(golden);
        }
    }

    /// Reads all of a model, lets it answer a few prompts, and writes the manifest anew.
    ///
    /// @param config names the model; how the engine is configured is how the golden prompts are answered
    /// @param progress hears what is done, one line each
    /// @throws InvalidModelException for a checkpoint that is refused
    public static Written write(EngineConfig config, Consumer<String> progress) {
        Path file = config.model().resolve(PATH);
        try (Aside old = Aside.of(file)) {
            progress.accept("computing " + PROMPTS + " golden prompts");
            List<Golden> golden = answers(config);
            progress.accept("reading every tensor");
            TensorManifest manifest = list(config.model(), golden);
            durable(file, manifest.toJson());
            old.drop();
            long packed = manifest.tensors().stream().filter(entry -> entry.decoded() != null).count();
            return new Written(manifest.tensors().size(), (int) packed, Files.size(file), golden);
        } catch (IOException e) {
            throw new UncheckedIOException(file + ": cannot be written: " + e.getMessage(), e);
        }
    }

    private static TensorManifest list(Path model, List<Golden> golden) {
        try (ModelFiles files = ModelFiles.open(model);
                Backend backend = Backend.open("auto", 0)) {
            ModelConfig config = ModelConfig.read(files).withDraft(files);
            TensorExpectation.check(config, files);
            LinearTensors linears = new LinearTensors(files, config.quantization());
            Map<String, LinearTensor> matrices = new HashMap<>();
            for (TensorExpectation tensor : TensorExpectation.of(config)) {
                if (tensor.matrix()) {
                    matrices.put(tensor.name(), tensor.open(linears));
                }
            }
            return files.list(
                    tensor -> {
                        LinearTensor matrix = matrices.get(tensor.name());
                        return matrix == null ? null : matrix.decoded(backend.kernels());
                    },
                    golden);
        }
    }

    /// Fixed prompts over the whole vocabulary, answered greedily by a real run through batch, cache and sampler.
    private static List<Golden> answers(EngineConfig config) {
        // By the processor: a device's answers would bind its own kind alone.
        boolean auto = config.backend().equals("auto");
        EngineConfig small = config.withBackend(auto ? Machine.probe().fastestOfTheProcessor() : config.backend())
                .withPrefixCache(false).withIntegrity(IntegrityConfig.OFF).withMaxBatch(PROMPTS);
        try (Engine engine = Engine.openForIds(small.withKvBytes(config.kvBytes() == 0 ? KV_BYTES : config.kvBytes()))) {
            ModelCard card = engine.card();
            int room = card.maxContext() - PROMPT_TOKENS;
            int answer = Math.max(1, Math.min(ANSWER_TOKENS, room));
            List<List<Integer>> prompts = new ArrayList<>();
            List<CompletableFuture<GenerationResult>> running = new ArrayList<>();
            for (int i = 0; i < PROMPTS; i++) {
                List<Integer> ids = prompt(i, card.vocabSize());
                var end = new CompletableFuture<GenerationResult>();
                engine.submit(engine.prepare(GenerationRequest.greedy("golden-" + i, new PromptInput.TokenIds(ids), answer)),
                        end::complete);
                prompts.add(ids);
                running.add(end);
            }
            List<Golden> golden = new ArrayList<>();
            for (int i = 0; i < PROMPTS; i++) {
                GenerationResult result = running.get(i).get();
                if (result.reason() == FinishReason.FAILED) {
                    throw new InvalidModelException("MODEL_GOLDEN", "golden prompt %d: expected an answer, got %s: %s; see `model inspect`"
                            .formatted(i, result.errorCode(), result.errorMessage()));
                }
                golden.add(new Golden(prompts.get(i), answer, card.profile(), card.kvFormat(), card.weightFormat(),
                        Golden.digest(result.tokenIds())));
            }
            return golden;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("golden prompts: interrupted", e);
        } catch (ExecutionException e) {
            throw new IllegalStateException("golden prompts: an answer has no exceptions", e);
        }
    }

    /// The ids of prompt `i`: a multiplicative hash of their place, so that they spread over any vocabulary.
    static List<Integer> prompt(int i, int vocabSize) {
        List<Integer> ids = new ArrayList<>();
        for (int k = 0; k < PROMPT_TOKENS; k++) {
            long hash = (i * PROMPT_TOKENS + k + 1) * STEP;
            ids.add((int) Math.unsignedMultiplyHigh(hash, vocabSize));
        }
        return ids;
    }

    private static void durable(Path file, byte[] bytes) throws IOException {
        Files.createDirectories(file.getParent());
        Path draft = file.resolveSibling(file.getFileName() + ".part");
        try (FileChannel channel = FileChannel.open(
                draft, StandardOpenOption.CREATE, StandardOpenOption.TRUNCATE_EXISTING, StandardOpenOption.WRITE)) {
            ByteBuffer buffer = ByteBuffer.wrap(bytes);
            while (buffer.hasRemaining()) {
                channel.write(buffer);
            }
            channel.force(true);
        }
        Files.move(draft, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }

    /// An older manifest, out of the way while the model is read for the new one: it may be of other weights. It comes
    /// back if none is written.
    private record Aside(Path file, Path place) implements AutoCloseable {
        static Aside of(Path file) throws IOException {
            Aside aside = new Aside(file, file.resolveSibling(file.getFileName() + ".before"));
            if (Files.exists(file)) {
                Files.move(file, aside.place, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
            }
            return aside;
        }

        void drop() throws IOException {
            Files.deleteIfExists(place);
        }

        @Override
        public void close() throws IOException {
            if (Files.exists(place)) {
                Files.move(place, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
            }
        }
    }
}
