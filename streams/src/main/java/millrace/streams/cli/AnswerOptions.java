package millrace.streams.cli;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import millrace.engine.InvalidRequestException;
import millrace.engine.ResponseFormat;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Option;

/// What an answer shall be and carry, for commands that send prompts. The service checks the values.
final class AnswerOptions {
    @Option(
            names = "--logprobs",
            paramLabel = "N",
            description = "Log probabilities of the generated tokens, with the N most likely beside each; 0 to 20 (default: none).")
    @Nullable Integer logprobs;

    @Option(
            names = "--response-format",
            paramLabel = "JSON|FILE",
            description = "What the completion must be: {\"type\":\"json_object\"}, or {\"type\":\"json_schema\",...} with a schema,"
                    + " as text or in a file (default: any text).")
    @Nullable String responseFormat;

    @Option(names = "--tools", paramLabel = "FILE", description = "Tools that the model may call: a file with a JSON array.")
    @Nullable Path tools;

    @Option(
            names = "--tool-choice",
            paramLabel = "CHOICE",
            description = "auto: the model may call the tools; none: it is not told of them; required: it calls some; or a JSON object that names"
                    + " one, {\"type\":\"function\",\"function\":{\"name\":\"weather\"}} (default: auto).")
    @Nullable String toolChoice;

    @Option(
            names = "--reasoning-effort",
            paramLabel = "EFFORT",
            description = "high or max, where the chat format has such a setting (default: the format's).")
    @Nullable String reasoningEffort;

    /// The response format as JSON text; null without one.
    ///
    /// @throws IllegalArgumentException if it is none
    @Nullable String responseFormat() throws IOException {
        if (responseFormat == null) {
            return null;
        }
        boolean inline = responseFormat.stripLeading().startsWith("{");
        String text = inline ? responseFormat : readable(Path.of(responseFormat), "--response-format");
        try {
            ResponseFormat.parse(text);
        } catch (InvalidRequestException e) {
            throw new IllegalArgumentException((inline ? "--response-format: " : responseFormat + ": ") + e.getMessage(), e);
        }
        return text;
    }

    /// The tools as JSON text; null without any.
    ///
    /// @throws IllegalArgumentException if it is no JSON array
    @Nullable String tools() throws IOException {
        if (tools == null) {
            return null;
        }
        JsonNode array = JsonLines.file(tools);
        if (!array.isArray()) {
            throw new IllegalArgumentException(tools + ": expected an array of tools, got " + JsonLines.kind(array));
        }
        return Files.readString(tools);
    }

    /// The options under the names of the fields of a line, for lines that do not say otherwise.
    ObjectNode fields() throws IOException {
        ObjectNode fields = JsonLines.mapper().createObjectNode();
        if (logprobs != null) {
            fields.put("logprobs", logprobs);
        }
        if (responseFormat != null) {
            fields.put("response_format", responseFormat());
        }
        if (tools != null) {
            fields.set("tools", JsonLines.mapper().readTree(tools()));
        }
        if (toolChoice != null) {
            fields.put("tool_choice", toolChoice);
        }
        if (reasoningEffort != null) {
            fields.put("reasoning_effort", reasoningEffort);
        }
        return fields;
    }

    private static String readable(Path file, String option) throws IOException {
        if (!Files.isReadable(file) || Files.isDirectory(file)) {
            throw new IllegalArgumentException(
                    option + ": expected a JSON object or a readable file, got neither; check text and path");
        }
        return Files.readString(file);
    }
}
