package millrace.streams;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/// Finds a model: a directory, or one of the models that come with the program.
public final class Models {
    /// A model that comes with the program.
    ///
    /// @param files its own
    /// @param base the model whose other files are its files too, weights among them, and that it answers like: it has a draft
    ///        layer in addition
    private record Bundled(List<String> files, @Nullable String base) {}

    private static final Map<String, Bundled> BUNDLED = Map.of(
            "glm-tiny", new Bundled(List.of("config.json", "generation_config.json", "tokenizer_config.json",
                    "chat_template.jinja", "tokenizer.json", "model.safetensors"), null),
            "glm-tiny-mtp", new Bundled(List.of("config.json", "model.safetensors.index.json", "mtp.safetensors"), "glm-tiny"),
            "kimi-tiny", new Bundled(List.of("config.json", "generation_config.json", "tokenizer_config.json",
                    "chat_template.jinja", "tiktoken.model", "model.safetensors.index.json", "model-00001-of-00002.safetensors",
                    "model-00002-of-00002.safetensors"), null));

    private Models() {}

    public static List<String> bundled() {
        return BUNDLED.keySet().stream().sorted().toList();
    }

    /// Those of them that answer differently from each other: a draft layer changes no answer.
    public static List<String> distinct() {
        return bundled().stream().filter(model -> bundle(model).base() == null).toList();
    }

    /// The directory of a model. Bundled models are unpacked below `scratch`.
    public static Path directory(String model, Path scratch) {
        if (model.isBlank()) {
            throw new IllegalArgumentException("engine.model: expected a checkpoint's directory or one of " + bundled()
                    + ", got nothing; set it in the config file or by -D engine.model=...");
        }
        Bundled bundled = BUNDLED.get(model);
        if (bundled == null || Files.isDirectory(Path.of(model))) {
            return Path.of(model);
        }
        Path target = scratch.resolve(model);
        try {
            Files.createDirectories(target);
            unpack(model, bundled.files(), target);
            if (bundled.base() != null) {
                List<String> others = new ArrayList<>(bundle(bundled.base()).files());
                others.removeAll(bundled.files());
                unpack(bundled.base(), others, target);
            }
        } catch (IOException e) {
            throw new UncheckedIOException("bundled model " + model + ": cannot be unpacked to " + target, e);
        }
        return target;
    }

    private static Bundled bundle(String model) {
        return Objects.requireNonNull(BUNDLED.get(model));
    }

    private static void unpack(String model, List<String> files, Path target) throws IOException {
        for (String file : files) {
            try (InputStream in = Models.class.getResourceAsStream("/models/" + model + "/" + file)) {
                if (in == null) {
                    throw new IllegalStateException("bundled model " + model + ": " + file + " is missing from the jar; build again");
                }
                Path part = target.resolve(file + ".part");
                Files.copy(in, part, StandardCopyOption.REPLACE_EXISTING);
                Files.move(part, target.resolve(file), StandardCopyOption.REPLACE_EXISTING);
            }
        }
    }

    /// The questions that come with a bundled model, as JSON lines.
    public static List<String> questions(String model) {
        try (Stream<String> lines = read(model, "questions.jsonl", "questions come").lines()) {
            return lines.filter(line -> !line.isBlank()).toList();
        }
    }

    /// The running text that comes with a bundled model, which the model was not trained on.
    public static String text(String model) {
        return read(model, "text.txt", "text comes");
    }

    private static String read(String model, String file, String what) {
        Bundled bundled = BUNDLED.get(model);
        String owner = bundled == null || bundled.base() == null ? model : bundled.base();
        try (InputStream in = Models.class.getResourceAsStream("/models/" + owner + "/" + file)) {
            if (in == null) {
                throw new IllegalArgumentException("model " + model + ": no " + what + " with it; expected one of " + bundled());
            }
            return new String(in.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(file + " of " + model, e);
        }
    }
}
