package millrace.engine.reply;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import millrace.engine.ChatMessage;
import millrace.engine.ToolCall;
import org.jspecify.annotations.Nullable;

/// The calls of GLM. Values are written without quotes, so their type is that of the tool's schema: what can only be a
/// string is one, whatever it looks like; anything else is JSON if it can be, and a string if not.
final class GlmCalls extends CallReader {
    private static final String KEY = "<arg_key>";
    private static final String END_KEY = "</arg_key>";
    private static final String VALUE = "<arg_value>";
    private static final String END_VALUE = "</arg_value>";

    /// As Python writes them.
    private static final Map<String, String> PYTHON = Map.of("True", "true", "False", "false", "None", "null");

    GlmCalls(ToolSchemas tools, List<ChatMessage> history) {
        super(tools, history);
    }

    @Override
    @Nullable ToolCall read(String text, boolean whole) {
        int at = text.indexOf(KEY);
        String name = Blank.strip(at < 0 ? text : text.substring(0, at));
        if (!whole || !isName(name)) {
            return null;
        }
        StringBuilder arguments = new StringBuilder("{");
        Set<String> keys = new HashSet<>();
        while (at >= 0) {
            int keyEnd = text.indexOf(END_KEY, at);
            int value = keyEnd < 0 ? -1 : text.indexOf(VALUE, keyEnd);
            int valueEnd = value < 0 ? -1 : text.indexOf(END_VALUE, value);
            if (valueEnd < 0 || !Blank.is(text.substring(keyEnd + END_KEY.length(), value))) {
                return null;
            }
            String key = Blank.strip(text.substring(at + KEY.length(), keyEnd));
            if (key.isEmpty() || key.contains("<arg_") || !keys.add(key)) {
                return null;
            }
            String raw = text.substring(value + VALUE.length(), valueEnd);
            arguments.append(keys.size() > 1 ? "," : "").append(JsonText.quote(key)).append(':');
            arguments.append(value(raw, tools.types(name, key)));
            int end = valueEnd + END_VALUE.length();
            at = text.indexOf(KEY, end);
            if (!Blank.is(text.substring(end, at < 0 ? text.length() : at))) {
                return null;
            }
        }
        return new ToolCall(newId("call_"), name, arguments.append('}').toString());
    }

    /// @param types that the schema allows; empty where it does not say
    private static String value(String raw, Set<String> types) {
        String text = Blank.strip(raw);
        if (types.equals(Set.of("string"))) {
            return JsonText.quote(raw);
        }
        String json = PYTHON.getOrDefault(text, text);
        JsonNode node = JsonText.parse(json);
        if (node == null) {
            return JsonText.quote(raw);
        }
        String type = ToolSchemas.typeOf(node);
        boolean fits = types.contains(type) && !type.equals("string") || type.equals("integer") && types.contains("number");
        return !types.contains("string") || fits ? json : JsonText.quote(raw);
    }
}
