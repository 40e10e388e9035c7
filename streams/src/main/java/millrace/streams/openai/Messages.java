package millrace.streams.openai;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import millrace.schemas.Message;
import millrace.schemas.ToolCall;
import org.jspecify.annotations.Nullable;

/// The conversation of a body.
final class Messages {
    private static final Set<String> ROLES = Set.of("system", "developer", "user", "assistant", "tool");

    private Messages() {}

    static List<Message> read(@Nullable ArrayNode array) {
        if (array == null || array.isEmpty()) {
            throw ApiException.missing("messages", "at least one message");
        }
        List<Message> messages = new ArrayList<>(array.size());
        for (int i = 0; i < array.size(); i++) {
            messages.add(message(Fields.of(array.get(i), "messages[" + i + "]")));
        }
        return messages;
    }

    private static Message message(Fields fields) {
        String role = fields.requiredText("role");
        if (!ROLES.contains(role)) {
            throw ApiException.wrongValue(fields.path("role"),
                    "expected system, developer, user, assistant or tool, got \"" + Fields.cut(role) + "\"");
        }
        boolean assistant = role.equals("assistant");
        List<ToolCall> calls = assistant ? calls(fields) : List.of();
        String content = content(fields, assistant && !calls.isEmpty());
        String reasoning = assistant ? fields.text("reasoning_content") : null;
        if (assistant) {
            fields.refuse("audio", "there is no sound");
            fields.refuse("function_call", "it was replaced by tool_calls");
            fields.refuse("refusal", "chat formats have no such turn");
        }
        String callId = role.equals("tool") ? fields.requiredText("tool_call_id") : null;
        Message message = new Message(
                role.equals("developer") ? "system" : role, content, reasoning, fields.text("name"), callId, calls);
        fields.refuseTheRest();
        return message;
    }

    /// A string, or parts of type text, which are joined.
    private static String content(Fields fields, boolean optional) {
        JsonNode content = fields.value("content");
        if (content == null) {
            if (optional) {
                return "";
            }
            throw ApiException.missing(fields.path("content"), "a string or parts of type text");
        }
        if (content.isTextual()) {
            return content.textValue();
        }
        if (!content.isArray()) {
            throw ApiException.wrongType(fields.path("content"), "a string or an array of parts", Json.kind(content));
        }
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < content.size(); i++) {
            Fields part = Fields.of(content.get(i), fields.path("content") + "[" + i + "]");
            String type = part.requiredText("type");
            if (!type.equals("text")) {
                throw ApiException.invalid("unsupported_value", part.path("type"), part.path("type") + ": expected text, got \""
                        + Fields.cut(type) + "\"; the models served here read text only");
            }
            text.append(part.requiredText("text"));
            part.refuseTheRest();
        }
        return text.toString();
    }

    private static List<ToolCall> calls(Fields message) {
        ArrayNode array = message.array("tool_calls");
        if (array == null) {
            return List.of();
        }
        List<ToolCall> calls = new ArrayList<>(array.size());
        for (int i = 0; i < array.size(); i++) {
            Fields call = Fields.of(array.get(i), message.path("tool_calls") + "[" + i + "]");
            requireFunction(call);
            Fields function = requiredFunction(call);
            calls.add(new ToolCall(call.requiredText("id"), function.requiredText("name"), function.requiredText("arguments")));
            function.refuseTheRest();
            call.refuseTheRest();
        }
        return calls;
    }

    static void requireFunction(Fields fields) {
        String type = fields.text("type");
        if (type != null && !type.equals("function")) {
            throw ApiException.invalid("unsupported_value", fields.path("type"),
                    fields.path("type") + ": expected function, got \"" + Fields.cut(type) + "\"");
        }
    }

    static Fields requiredFunction(Fields fields) {
        Fields function = fields.fields("function");
        if (function == null) {
            throw ApiException.missing(fields.path("function"), "an object");
        }
        return function;
    }

    /// The tools as the chat formats take them, or null.
    static @Nullable String tools(Fields body) {
        ArrayNode array = body.array("tools");
        if (array == null || array.isEmpty()) {
            return null;
        }
        for (int i = 0; i < array.size(); i++) {
            Fields tool = Fields.of(array.get(i), "tools[" + i + "]");
            requireFunction(tool);
            Fields function = requiredFunction(tool);
            function.requiredText("name");
            function.text("description");
            function.object("parameters");
            function.flag("strict");
            function.refuseTheRest();
            tool.refuseTheRest();
        }
        return Json.write(array);
    }
}
