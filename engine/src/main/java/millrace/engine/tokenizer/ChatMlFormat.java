package millrace.engine.tokenizer;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import millrace.engine.ChatMessage;
import millrace.engine.ChatOptions;
import millrace.engine.ReplyReader;
import millrace.engine.ToolCall;
import millrace.engine.reply.CallForm;
import millrace.engine.reply.CallSyntax;
import millrace.engine.reply.MarkupReader;
import org.jspecify.annotations.Nullable;

/// The formats of Qwen: `<|im_start|>role`, a line break, the content, `<|im_end|>`, a line break.
enum ChatMlFormat implements ChatFormat {
    /// Roles and contents, nothing else.
    CHATML("chatml", null),
    /// Qwen2: a system turn of its own, no tools.
    QWEN_2("qwen2", "You are a helpful assistant."),
    /// Qwen2.5: a system turn of its own, tools.
    QWEN_2_5("qwen2.5", "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."),
    /// Qwen3: tools, and thinking that is kept for the turns after the last question.
    QWEN_3("qwen3", null);

    private static final String TOOLS_HEAD = "# Tools\n\nYou may call one or more functions"
            + " to assist with the user query.\n\nYou are provided with function signatures"
            + " within <tools></tools> XML tags:\n<tools>";
    private static final String TOOLS_TAIL = "\n</tools>\n\nFor each function call, return a json object"
            + " with function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n"
            + "{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>";

    private final String id;
    private final @Nullable String defaultSystem;

    ChatMlFormat(String id, @Nullable String defaultSystem) {
        this.id = id;
        this.defaultSystem = defaultSystem;
    }

    @Override
    public String id() {
        return id;
    }

    @Override
    public List<String> markers() {
        return List.of("<|im_start|>", "<|im_end|>");
    }

    @Override
    public Rendered render(List<ChatMessage> messages, ChatOptions options, Tokenizer tokenizer) {
        Conversation conversation = Conversation.of(messages, options);
        if (!usesTools()) {
            conversation.refuseTools(id);
        }
        PromptWriter out = new PromptWriter(tokenizer, this);
        boolean system = messages.getFirst().role().equals("system");
        system(system ? messages.getFirst().content() : defaultSystem, conversation, out);
        for (int i = system ? 1 : 0; i < messages.size(); i++) {
            ChatMessage message = messages.get(i);
            if (message.role().equals("assistant") && usesTools()) {
                assistant(i, conversation, out);
            } else if (message.role().equals("tool") && usesTools()) {
                tool(i, conversation, out);
            } else {
                out.marker("<|im_start|>").format(message.role() + "\n").content(message.content());
                out.marker("<|im_end|>").format("\n");
            }
        }
        if (options.addGenerationPrompt()) {
            out.marker("<|im_start|>").format("assistant\n");
            if (this == QWEN_3 && conversation.thinkingOff()) {
                out.format("<think>\n\n</think>\n\n");
            }
        }
        return out.finish();
    }

    @Override
    public ReplyReader replies(List<ChatMessage> messages, ChatOptions options) {
        CallForm form = usesTools() ? CallForm.JSON : CallForm.NONE;
        return MarkupReader.of(this == QWEN_3, false, form, messages, options.tools());
    }

    @Override
    public @Nullable CallSyntax calls() {
        return usesTools() ? CallSyntax.json(this == QWEN_3) : null;
    }

    @Override
    public Reasoning reasoning(ChatOptions options) {
        boolean off = Boolean.FALSE.equals(options.thinking()) || !options.addGenerationPrompt();
        return this == QWEN_3 && !off ? Reasoning.POSSIBLE : Reasoning.NONE;
    }

    private boolean usesTools() {
        return this == QWEN_2_5 || this == QWEN_3;
    }

    private void system(@Nullable String text, Conversation conversation, PromptWriter out) {
        boolean tools = !conversation.tools().isEmpty();
        if (text == null && !tools) {
            return;
        }
        out.marker("<|im_start|>").format("system\n");
        if (text != null) {
            out.content(text).format(tools ? "\n\n" : "");
        }
        if (tools) {
            out.format(TOOLS_HEAD);
            for (JsonNode tool : conversation.tools()) {
                out.format("\n").content(PythonJson.dumps(tool));
            }
            out.format(TOOLS_TAIL);
        }
        out.marker("<|im_end|>").format("\n");
    }

    private void assistant(int index, Conversation conversation, PromptWriter out) {
        ChatMessage message = conversation.messages().get(index);
        out.marker("<|im_start|>").format("assistant");
        String content = message.content();
        if (this == QWEN_3) {
            Conversation.Answer answer = Conversation.answer(message, "\n");
            content = answer.content();
            boolean last = index == conversation.messages().size() - 1;
            out.format("\n");
            if (index > lastQuestion(conversation)
                    && (last || !answer.reasoning().isEmpty())) {
                String reasoning = Strip.right(Strip.left(answer.reasoning(), "\n"), "\n");
                out.format("<think>\n")
                        .content(reasoning)
                        .format("\n</think>\n\n")
                        .content(Strip.left(content, "\n"));
            } else {
                out.content(content);
            }
        } else if (!content.isEmpty() || message.toolCalls().isEmpty()) {
            out.format("\n").content(content);
        }
        boolean first = true;
        for (ToolCall call : message.toolCalls()) {
            boolean lineBreak = this != QWEN_3 || !first || !content.isEmpty();
            out.format(lineBreak ? "\n<tool_call>\n{\"name\": \"" : "<tool_call>\n{\"name\": \"");
            out.content(call.name()).format("\", \"arguments\": ");
            out.content(PythonJson.dumps(Conversation.arguments(call))).format("}\n</tool_call>");
            first = false;
        }
        out.marker("<|im_end|>").format("\n");
    }

    /// Index of the last turn of the user that is not a tool's answer in disguise.
    private static int lastQuestion(Conversation conversation) {
        for (int i = conversation.messages().size() - 1; i >= 0; i--) {
            ChatMessage message = conversation.messages().get(i);
            boolean response = message.content().startsWith("<tool_response>")
                    && message.content().endsWith("</tool_response>");
            if (message.role().equals("user") && !response) {
                return i;
            }
        }
        return conversation.messages().size() - 1;
    }

    private static void tool(int index, Conversation conversation, PromptWriter out) {
        if (!conversation.continues(index)) {
            out.marker("<|im_start|>").format("user");
        }
        out.format("\n<tool_response>\n")
                .content(conversation.messages().get(index).content())
                .format("\n</tool_response>");
        boolean last = index + 1 == conversation.messages().size();
        if (last || !conversation.continues(index + 1)) {
            out.marker("<|im_end|>").format("\n");
        }
    }
}
