package millrace.engine.tokenizer;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import millrace.engine.ChatMessage;
import millrace.engine.ChatOptions;
import millrace.engine.ReplyReader;
import millrace.engine.ToolCall;
import millrace.engine.reply.CallForm;
import millrace.engine.reply.CallSyntax;
import millrace.engine.reply.MarkupReader;
import org.jspecify.annotations.Nullable;

/// The formats of Kimi: `marker label <|im_middle|> content <|im_end|>`, no line breaks between turns.
enum KimiFormat implements ChatFormat {
    /// Roles and contents, nothing else, no system turn of its own.
    PLAIN("kimi-plain", null),
    /// First release of K2-Instruct: tools' turns are labelled `tool`, and a backslash and an n stand for a line break.
    K2_EARLY("kimi-k2-early", "You are a helpful assistant"),
    /// K2-Instruct and K2-Instruct-0905.
    K2("kimi-k2", KimiFormat.KIMI),
    /// K2-Thinking: history with empty thinking, the current tool loop with its own.
    K2_THINKING("kimi-k2-thinking", KimiFormat.KIMI),
    /// K2.5 and K2.6: tools in TypeScript, the prompt opens or closes the thinking.
    K2_5("kimi-k2.5", KimiFormat.KIMI),
    /// K2.7-Code: as K2.5, always thinking, all reasoning kept, no system turn of its own.
    K2_7("kimi-k2.7", null);

    private static final String KIMI = "You are Kimi, an AI assistant created by Moonshot AI.";

    private final String id;
    private final @Nullable String defaultSystem;

    KimiFormat(String id, @Nullable String defaultSystem) {
        this.id = id;
        this.defaultSystem = defaultSystem;
    }

    @Override
    public String id() {
        return id;
    }

    @Override
    public List<String> markers() {
        return List.of("<|im_system|>", "<|im_user|>", "<|im_assistant|>", "<|im_middle|>", "<|im_end|>");
    }

    @Override
    public Rendered render(List<ChatMessage> messages, ChatOptions options, Tokenizer tokenizer) {
        Conversation conversation = Conversation.of(messages, options);
        PromptWriter out = new PromptWriter(tokenizer, this);
        if (this == PLAIN) {
            conversation.refuseTools(id);
        }
        if (!conversation.tools().isEmpty()) {
            out.marker("<|im_system|>").format("tool_declare").marker("<|im_middle|>");
            out.content(declarations(conversation)).marker("<|im_end|>");
        }
        if (defaultSystem != null && !messages.getFirst().role().equals("system")) {
            out.marker("<|im_system|>").format("system").marker("<|im_middle|>");
            out.format(defaultSystem).marker("<|im_end|>");
        }
        new Turns(conversation, out).write();
        if (options.addGenerationPrompt()) {
            out.marker("<|im_assistant|>").format("assistant").marker("<|im_middle|>");
            if (typescript()) {
                out.format(this == K2_5 && conversation.thinkingOff() ? "<think></think>" : "<think>");
            }
        }
        return out.finish();
    }

    @Override
    public ReplyReader replies(List<ChatMessage> messages, ChatOptions options) {
        boolean off = this == K2_5 && Boolean.FALSE.equals(options.thinking());
        boolean opened = options.addGenerationPrompt() && typescript() && !off;
        return MarkupReader.of(thinks(), opened, this == PLAIN ? CallForm.NONE : CallForm.KIMI, messages, options.tools());
    }

    @Override
    public @Nullable CallSyntax calls() {
        return this == PLAIN ? null : CallSyntax.kimi(thinks());
    }

    @Override
    public Reasoning reasoning(ChatOptions options) {
        boolean off = this == K2_5 && Boolean.FALSE.equals(options.thinking());
        if (!thinks() || off || !options.addGenerationPrompt()) {
            return Reasoning.NONE;
        }
        return typescript() ? Reasoning.OPEN : Reasoning.POSSIBLE;
    }

    private boolean typescript() {
        return this == K2_5 || this == K2_7;
    }

    private boolean thinks() {
        return this == K2_THINKING || typescript();
    }

    private String declarations(Conversation conversation) {
        if (typescript()) {
            return TypeScriptTools.declare(conversation.tools());
        }
        StringBuilder json = new StringBuilder("[");
        for (int i = 0; i < conversation.tools().size(); i++) {
            json.append(i == 0 ? "" : ", ")
                    .append(PythonJson.dumps(conversation.tools().get(i)));
        }
        return json.append(']').toString();
    }

    /// The turns of one conversation; counts calls over all of them.
    private final class Turns {
        private final Conversation conversation;
        private final PromptWriter out;
        private final Deque<String> unanswered = new ArrayDeque<>();
        private int calls;

        Turns(Conversation conversation, PromptWriter out) {
            this.conversation = conversation;
            this.out = out;
        }

        void write() {
            int history = lastPlainAnswer();
            for (int i = 0; i < conversation.messages().size(); i++) {
                ChatMessage message = conversation.messages().get(i);
                out.marker(marker(message.role()));
                boolean named = this.labelsByName()
                        && message.name() != null
                        && !message.name().isEmpty();
                out.content(named ? message.name() : message.role()).marker("<|im_middle|>");
                if (message.role().equals("assistant") && thinks()) {
                    String reasoning = message.reasoningContent() == null ? "" : message.reasoningContent();
                    boolean kept = i > history || KimiFormat.this == K2_7;
                    out.format("<think>").content(kept ? reasoning : "").format("</think>");
                }
                if (message.role().equals("tool") && KimiFormat.this != PLAIN) {
                    out.format("## Return of ").content(callId(i, message));
                    out.format(KimiFormat.this == K2_EARLY ? "\\n" : "\n");
                }
                out.content(message.content());
                if (!message.toolCalls().isEmpty()) {
                    calls(message);
                }
                out.marker("<|im_end|>");
            }
        }

        private boolean labelsByName() {
            return KimiFormat.this != PLAIN && KimiFormat.this != K2_EARLY;
        }

        /// Index of the last answer without calls: up to there it is history, after it the current tool loop.
        private int lastPlainAnswer() {
            for (int i = conversation.messages().size() - 1; i >= 0; i--) {
                ChatMessage message = conversation.messages().get(i);
                if (message.role().equals("assistant") && message.toolCalls().isEmpty()) {
                    return i;
                }
            }
            return -1;
        }

        private static String marker(String role) {
            return switch (role) {
                case "user" -> "<|im_user|>";
                case "assistant" -> "<|im_assistant|>";
                default -> "<|im_system|>";
            };
        }

        private void calls(ChatMessage message) {
            out.format("<|tool_calls_section_begin|>");
            for (ToolCall call : message.toolCalls()) {
                String callId = call.id().isEmpty() ? "functions." + call.name() + ":" + calls : call.id();
                calls++;
                unanswered.add(callId);
                out.format("<|tool_call_begin|>").content(callId).format("<|tool_call_argument_begin|>");
                out.content(PythonJson.dumps(Conversation.arguments(call))).format("<|tool_call_end|>");
            }
            out.format("<|tool_calls_section_end|>");
        }

        private String callId(int index, ChatMessage message) {
            String next = unanswered.poll();
            String given = message.toolCallId();
            if (given != null && !given.isEmpty()) {
                return given;
            }
            if (next == null) {
                throw PythonJson.invalid("messages[" + index + "].tool_call_id", "the id of an earlier call", "none");
            }
            return next;
        }
    }
}
