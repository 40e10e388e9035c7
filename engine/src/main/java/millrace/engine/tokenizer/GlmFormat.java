package millrace.engine.tokenizer;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.MissingNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Map;
import millrace.engine.ChatMessage;
import millrace.engine.ChatOptions;
import millrace.engine.ReplyReader;
import millrace.engine.ToolCall;
import millrace.engine.reply.CallForm;
import millrace.engine.reply.CallSyntax;
import millrace.engine.reply.MarkupReader;
import org.jspecify.annotations.Nullable;

/// The formats of GLM: no end of turn, the next role's marker ends it.
enum GlmFormat implements ChatFormat {
    /// Roles and contents, nothing else; the answer begins after a line break.
    PLAIN("glm-plain", "\n"),
    /// GLM-4.5 and 4.6: contents on a line of their own, thinking switched off by `/nothink`.
    GLM_4_5("glm-4.5", "\n"),
    /// GLM-4.7, 4.7-Flash, 5 and 5.1: no line breaks, the prompt opens or closes the thinking.
    GLM_4_7("glm-4.7", ""),
    /// GLM-5.2: as 4.7, with a reasoning effort, and history that keeps its empty thinking.
    GLM_5("glm-5", "");

    private static final String TOOLS_HEAD = "\n# Tools\n\nYou may call one or more functions"
            + " to assist with the user query.\n\nYou are provided with function signatures"
            + " within <tools></tools> XML tags:\n<tools>\n";
    private static final String TOOLS_TAIL = "</tools>\n\nFor each function call, output the function name"
            + " and arguments within the following XML format:\n<tool_call>{function-name}";

    private final String id;
    /// What stands between a role's marker and the content, and around the parts of a call.
    private final String lineBreak;

    GlmFormat(String id, String lineBreak) {
        this.id = id;
        this.lineBreak = lineBreak;
    }

    @Override
    public String id() {
        return id;
    }

    @Override
    public List<String> markers() {
        return List.of("[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>");
    }

    @Override
    public Rendered render(List<ChatMessage> messages, ChatOptions options, Tokenizer tokenizer) {
        Conversation conversation = Conversation.of(messages, options);
        PromptWriter out = new PromptWriter(tokenizer, this).marker("[gMASK]").marker("<sop>");
        if (this == PLAIN) {
            conversation.refuseTools(id);
        } else {
            head(conversation, out);
        }
        for (int i = 0; i < messages.size(); i++) {
            ChatMessage message = messages.get(i);
            switch (message.role()) {
                case "system" -> out.marker("<|system|>").format(lineBreak).content(message.content());
                case "user" -> user(message, conversation, out);
                case "assistant" -> assistant(i, conversation, out);
                default -> tool(i, conversation, out);
            }
        }
        if (options.addGenerationPrompt()) {
            out.marker("<|assistant|>").format(opening(conversation.thinkingOff()));
        }
        return out.finish();
    }

    @Override
    public ReplyReader replies(List<ChatMessage> messages, ChatOptions options) {
        boolean opened = options.addGenerationPrompt() && opening(Boolean.FALSE.equals(options.thinking())).endsWith("<think>");
        return MarkupReader.of(this != PLAIN, opened, this == PLAIN ? CallForm.NONE : CallForm.GLM, messages, options.tools());
    }

    @Override
    public @Nullable CallSyntax calls() {
        return this == PLAIN ? null : CallSyntax.glm(lineBreak);
    }

    @Override
    public Reasoning reasoning(ChatOptions options) {
        String opening = opening(Boolean.FALSE.equals(options.thinking()));
        if (this == PLAIN || !options.addGenerationPrompt() || opening.endsWith(Reasoning.CLOSING)) {
            return Reasoning.NONE;
        }
        return opening.endsWith(Reasoning.OPENING) ? Reasoning.OPEN : Reasoning.POSSIBLE;
    }

    private String opening(boolean thinkingOff) {
        return switch (this) {
            case PLAIN -> "\n";
            case GLM_4_5 -> thinkingOff ? "\n<think></think>" : "";
            case GLM_4_7 -> thinkingOff ? "</think>" : "<think>";
            case GLM_5 -> thinkingOff ? "<think></think>" : "<think>";
        };
    }

    private void head(Conversation conversation, PromptWriter out) {
        if (this == GLM_5 && !conversation.thinkingOff()) {
            boolean high = "high".equals(conversation.options().reasoningEffort());
            out.marker("<|system|>").format("Reasoning Effort: " + (high ? "High" : "Max"));
        }
        if (conversation.tools().isEmpty()) {
            return;
        }
        out.marker("<|system|>").format(TOOLS_HEAD);
        for (JsonNode tool : conversation.tools()) {
            JsonNode shown = this == GLM_5 ? function(tool) : tool;
            if (!shown.isMissingNode()) {
                out.content(PythonJson.dumps(shown)).format("\n");
            }
        }
        out.format(TOOLS_TAIL);
        for (String n : new String[] {"1", "2"}) {
            out.format("%s<arg_key>{arg-key-%s}</arg_key>%s<arg_value>{arg-value-%s}</arg_value>"
                    .formatted(lineBreak, n, lineBreak, n));
        }
        out.format(lineBreak + "..." + lineBreak + "</tool_call>");
    }

    /// The declaration as GLM-5 shows it, or a missing node for a tool that is deferred.
    private static JsonNode function(JsonNode tool) {
        JsonNode inner = tool.path("function").isObject() ? tool.path("function") : tool;
        if (inner.path("defer_loading").asBoolean(false)) {
            return MissingNode.getInstance();
        }
        ObjectNode shown = inner.deepCopy();
        return shown.without(List.of("strict", "defer_loading"));
    }

    private void user(ChatMessage message, Conversation conversation, PromptWriter out) {
        out.marker("<|user|>").format(lineBreak);
        String content = message.content();
        if (this == GLM_4_5 && conversation.thinkingOff()) {
            String bare = content.endsWith("/nothink") ? content.substring(0, content.length() - 8) : content;
            out.content(bare).format("/nothink");
        } else {
            out.content(content);
        }
    }

    private void assistant(int index, Conversation conversation, PromptWriter out) {
        ChatMessage message = conversation.messages().get(index);
        out.marker("<|assistant|>").format(lineBreak);
        if (this == PLAIN) {
            out.content(message.content());
            return;
        }
        // GLM-5 keeps the line breaks around the reasoning, its predecessors do not.
        Conversation.Answer answer = Conversation.answer(message, this == GLM_5 ? "" : "\n");
        if (index > conversation.lastIndexOf("user") && !answer.reasoning().isEmpty()) {
            String reasoning = this == GLM_5 ? answer.reasoning() : Strip.both(answer.reasoning());
            out.format("<think>").content(reasoning).format("</think>");
        } else {
            out.format(this == GLM_4_7 ? "</think>" : "<think></think>");
        }
        String content = Strip.both(answer.content());
        if (!content.isEmpty()) {
            out.format(lineBreak).content(content);
        }
        for (ToolCall call : message.toolCalls()) {
            call(call, out);
        }
    }

    private void call(ToolCall call, PromptWriter out) {
        out.format(lineBreak + "<tool_call>").content(call.name()).format(lineBreak);
        for (Map.Entry<String, JsonNode> argument : Conversation.arguments(call).properties()) {
            JsonNode value = argument.getValue();
            out.format("<arg_key>")
                    .content(argument.getKey())
                    .format("</arg_key>" + lineBreak + "<arg_value>")
                    .content(value.isTextual() ? value.textValue() : PythonJson.dumps(value))
                    .format("</arg_value>" + lineBreak);
        }
        out.format("</tool_call>");
    }

    private void tool(int index, Conversation conversation, PromptWriter out) {
        String content = conversation.messages().get(index).content();
        if (this == PLAIN) {
            out.marker("<|observation|>").format("\n").content(content);
            return;
        }
        if (!conversation.continues(index)) {
            out.marker("<|observation|>");
        }
        out.format(lineBreak + "<tool_response>" + lineBreak).content(content).format(lineBreak + "</tool_response>");
    }
}
