package millrace.engine.tokenizer;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import millrace.engine.ChatMessage;
import millrace.engine.ChatOptions;
import millrace.engine.InvalidRequestException;
import millrace.engine.ToolCall;

/// A checked conversation with its tools, as the formats read it.
///
/// @param tools the tool declarations, objects; empty if there are none
record Conversation(List<ChatMessage> messages, List<JsonNode> tools, ChatOptions options) {
    private static final Set<String> ROLES = Set.of("system", "user", "assistant", "tool");

    /// Reasoning and answer of an assistant's turn; reasoning is empty if there is none.
    record Answer(String reasoning, String content) {}

    static Conversation of(List<ChatMessage> messages, ChatOptions options) {
        if (messages.isEmpty()) {
            throw new InvalidRequestException("PROMPT_EMPTY", "messages: expected at least one, got none");
        }
        for (int i = 0; i < messages.size(); i++) {
            check("messages[" + i + "]", messages.get(i));
        }
        return new Conversation(messages, tools(options), options);
    }

    private static void check(String where, ChatMessage message) {
        if (!ROLES.contains(message.role())) {
            String role = message.role();
            throw new InvalidRequestException(
                    "ROLE_UNKNOWN",
                    "%s.role: expected system, user, assistant or tool, got \"%s\""
                            .formatted(where, role.length() <= 40 ? role : role.substring(0, 40) + "…"));
        }
        Utf8.requireWellFormed(where + ".content", message.content());
        if (message.reasoningContent() != null) {
            Utf8.requireWellFormed(where + ".reasoning_content", message.reasoningContent());
        }
        if (message.name() != null) {
            Utf8.requireWellFormed(where + ".name", message.name());
        }
        if (message.toolCallId() != null) {
            Utf8.requireWellFormed(where + ".tool_call_id", message.toolCallId());
        }
        for (ToolCall call : message.toolCalls()) {
            Utf8.requireWellFormed(where + ".tool_calls.id", call.id());
            Utf8.requireWellFormed(where + ".tool_calls.name", call.name());
            Utf8.requireWellFormed(where + ".tool_calls.arguments", call.arguments());
        }
        if (!message.toolCalls().isEmpty() && !message.role().equals("assistant")) {
            throw PythonJson.invalid(where + ".tool_calls", "calls in turns of the assistant only", message.role());
        }
    }

    private static List<JsonNode> tools(ChatOptions options) {
        String json = options.tools();
        if (json == null) {
            return List.of();
        }
        Utf8.requireWellFormed("tools", json);
        JsonNode node = PythonJson.parse("tools", json);
        if (!node.isArray()) {
            throw PythonJson.invalid("tools", "a JSON array", kind(node));
        }
        List<JsonNode> tools = new ArrayList<>();
        for (JsonNode tool : node) {
            if (!tool.isObject()) {
                throw PythonJson.invalid("tools[" + tools.size() + "]", "an object", kind(tool));
            }
            tools.add(tool);
        }
        return tools;
    }

    /// The arguments of a call, an object; no text counts as an empty one.
    static JsonNode arguments(ToolCall call) {
        String name = call.name().length() <= 64 ? call.name() : call.name().substring(0, 64) + "…";
        String where = "tool call \"" + name + "\"";
        JsonNode node = PythonJson.parse(where, call.arguments().isBlank() ? "{}" : call.arguments());
        if (!node.isObject()) {
            throw PythonJson.invalid(where, "a JSON object as arguments", kind(node));
        }
        return node;
    }

    private static String kind(JsonNode node) {
        return node.getNodeType().toString().toLowerCase(Locale.ROOT);
    }

    int lastIndexOf(String role) {
        for (int i = messages.size() - 1; i >= 0; i--) {
            if (messages.get(i).role().equals(role)) {
                return i;
            }
        }
        return -1;
    }

    /// Whether the message at an index follows another one of the same role.
    boolean continues(int index) {
        return index > 0
                && messages.get(index - 1).role().equals(messages.get(index).role());
    }

    boolean thinkingOff() {
        return Boolean.FALSE.equals(options.thinking());
    }

    /// Refuses tools and calls, for formats that have no words for them.
    void refuseTools(String formatId) {
        boolean calls = messages.stream().anyMatch(m -> !m.toolCalls().isEmpty());
        if (!tools.isEmpty() || calls) {
            throw PythonJson.invalid(
                    "chat format \"" + formatId + "\"", "no tools and no calls, as it has no words for them", "some");
        }
    }

    /// The reasoning given apart, or else what stands in the content between `<think>` and `</think>`.
    ///
    /// @param stripped characters to take away around reasoning and content if they are taken from the content
    static Answer answer(ChatMessage message, String stripped) {
        String content = message.content();
        if (message.reasoningContent() != null) {
            return new Answer(message.reasoningContent(), content);
        }
        int first = content.indexOf("</think>");
        if (first < 0) {
            return new Answer("", content);
        }
        String before = Strip.right(content.substring(0, first), stripped);
        int open = before.lastIndexOf("<think>");
        String reasoning = Strip.left(open < 0 ? before : before.substring(open + "<think>".length()), stripped);
        String after = content.substring(content.lastIndexOf("</think>") + "</think>".length());
        return new Answer(reasoning, Strip.left(after, stripped));
    }
}
