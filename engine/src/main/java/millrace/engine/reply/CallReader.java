package millrace.engine.reply;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import millrace.engine.ChatMessage;
import millrace.engine.ToolCall;
import org.jspecify.annotations.Nullable;

/// Reads the calls of one reply, each from the text between its markers. What is not a call beyond doubt is none: no tool is
/// ever called with arguments that had to be guessed.
abstract sealed class CallReader permits GlmCalls, KimiCalls, JsonCalls, CallReader.None {
    private static final Pattern NAME = Pattern.compile("[A-Za-z0-9_.:/-]{1,128}");

    final ToolSchemas tools;
    private final Set<String> ids = new HashSet<>();
    private int next;

    /// @param history calls that were made before: their ids are not given again
    CallReader(ToolSchemas tools, List<ChatMessage> history) {
        this.tools = tools;
        for (ChatMessage message : history) {
            for (ToolCall call : message.toolCalls()) {
                ids.add(call.id());
                next++;
            }
        }
    }

    static CallReader of(CallForm form, ToolSchemas tools, List<ChatMessage> history) {
        if (tools.isEmpty()) {
            return new None(tools, history);
        }
        return switch (form) {
            case NONE -> new None(tools, history);
            case GLM -> new GlmCalls(tools, history);
            case KIMI -> new KimiCalls(tools, history);
            case JSON -> new JsonCalls(tools, history);
        };
    }

    /// @param whole whether markup ended the call; otherwise the text did, and it counts only if nothing can be missing
    /// @return null if it cannot be read
    abstract @Nullable ToolCall read(String text, boolean whole);

    /// Whether this can be the name of a tool, declared or not: a tool that does not exist is for the caller to deny.
    final boolean isName(String name) {
        return tools.has(name) || NAME.matcher(name).matches();
    }

    /// An id that no call of the conversation has, numbered by the calls before it.
    final String newId(String prefix) {
        while (!ids.add(prefix + next)) {
            next++;
        }
        return prefix + next++;
    }

    /// Takes an id that the model gave, if no call has it yet.
    final boolean takeId(String id) {
        boolean free = ids.add(id);
        next += free ? 1 : 0;
        return free;
    }

    /// Where nothing is a call.
    static final class None extends CallReader {
        None(ToolSchemas tools, List<ChatMessage> history) {
            super(tools, history);
        }

        @Override
        @Nullable ToolCall read(String text, boolean whole) {
            return null;
        }
    }

    /// The keys of an object's text; empty for what is none.
    static Set<String> keys(String object) {
        JsonNode node = JsonText.parse(object);
        Set<String> keys = new HashSet<>();
        if (node != null) {
            for (Map.Entry<String, JsonNode> field : node.properties()) {
                keys.add(field.getKey());
            }
        }
        return keys;
    }
}
