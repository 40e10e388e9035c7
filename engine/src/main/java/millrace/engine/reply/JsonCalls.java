package millrace.engine.reply;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.Map;
import millrace.engine.ChatMessage;
import millrace.engine.ToolCall;
import org.jspecify.annotations.Nullable;

/// Calls that are one JSON object of a name and arguments. An object says itself where it ends: a missing end of the call
/// does no harm.
final class JsonCalls extends CallReader {
    JsonCalls(ToolSchemas tools, List<ChatMessage> history) {
        super(tools, history);
    }

    @Override
    @Nullable ToolCall read(String text, boolean whole) {
        Map<String, String> fields = JsonText.fields(text);
        if (fields == null) {
            return null;
        }
        JsonNode name = JsonText.parse(fields.getOrDefault("name", ""));
        String arguments = arguments(fields.getOrDefault("arguments", fields.getOrDefault("parameters", "{}")));
        if (name == null || !name.isTextual() || !isName(name.textValue()) || arguments == null) {
            return null;
        }
        return new ToolCall(newId("call_"), name.textValue(), arguments);
    }

    /// An object, or a string that holds one.
    private static @Nullable String arguments(String json) {
        JsonNode node = JsonText.parse(json);
        if (node == null || node.isNull()) {
            return "{}";
        }
        if (node.isTextual()) {
            return JsonText.isObject(node.textValue()) ? Blank.strip(node.textValue()) : null;
        }
        return node.isObject() ? json : null;
    }
}
