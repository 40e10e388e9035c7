package millrace.engine;

import com.fasterxml.jackson.core.JacksonException;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/// Reads which tools an answer must or may call.
final class ToolChoice {
    private static final Pattern NAME = Pattern.compile("[A-Za-z0-9_./-]{1,128}");
    private static final String EXPECTED =
            "auto, none, required, or {\"type\":\"function\",\"function\":{\"name\":…}} with the name of a declared tool";

    private ToolChoice() {}

    static ResponseFormat apply(ResponseFormat format, @Nullable String tools, @Nullable String choice) {
        boolean free = choice == null || choice.equals("auto");
        if ("none".equals(choice) || free && (tools == null || !(format instanceof ResponseFormat.Text) || !strict(tools))) {
            return format;
        }
        String only = free || "required".equals(choice) ? null : name(String.valueOf(choice));
        if (tools == null) {
            throw invalid("tools beside it, with messages", "none");
        }
        if (!(format instanceof ResponseFormat.Text)) {
            throw invalid("auto or none beside response_format", "a call that is required");
        }
        return new ResponseFormat.Calls(tools, only, !free);
    }

    private static String name(String choice) {
        JsonNode node = parse(choice);
        JsonNode name = node == null ? null : node.path("function").path("name");
        boolean known = node != null && node.isObject() && node.size() == 2 && node.path("type").asText().equals("function")
                && node.path("function").size() == 1 && name.isTextual() && NAME.matcher(name.textValue()).matches();
        if (!known) {
            throw invalid(EXPECTED, "something else");
        }
        return name.textValue();
    }

    /// Whether some tool wants its arguments held to its schema. What is no tool, the chat format refuses.
    private static boolean strict(String tools) {
        JsonNode array = tools.contains("\"strict\"") ? parse(tools) : null;
        if (array != null) {
            for (JsonNode tool : array) {
                if (tool.path("strict").asBoolean(false) || tool.path("function").path("strict").asBoolean(false)) {
                    return true;
                }
            }
        }
        return false;
    }

    private static @Nullable JsonNode parse(String json) {
        try {
            return ResponseFormatReader.MAPPER.readTree(json);
        } catch (JacksonException e) {
            return null;
        }
    }

    private static InvalidRequestException invalid(String expected, String got) {
        return new InvalidRequestException("TOOL_CHOICE", "tool_choice: expected " + expected + ", got " + got + "; see docs/formats.md");
    }
}
