package millrace.engine.tokenizer;

import java.util.List;
import millrace.engine.ChatMessage;
import millrace.engine.ChatOptions;
import millrace.engine.ReplyReader;

/// The formats of Llama 3: a header with the role, a blank line, the trimmed content, the end of the turn.
enum Llama3Format implements ChatFormat {
    LLAMA_3("llama3"),
    /// Llama 3.1 to 3.3: a system turn with two dates comes first. Today's date is the template's own default, so that
    /// the same conversation is the same prompt on every day.
    LLAMA_3_1("llama3.1");

    private static final String DATES = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";

    private final String id;

    Llama3Format(String id) {
        this.id = id;
    }

    @Override
    public String id() {
        return id;
    }

    @Override
    public List<String> markers() {
        return List.of("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>");
    }

    @Override
    public Rendered render(List<ChatMessage> messages, ChatOptions options, Tokenizer tokenizer) {
        Conversation conversation = Conversation.of(messages, options);
        conversation.refuseTools(id);
        PromptWriter out = new PromptWriter(tokenizer, this).marker("<|begin_of_text|>");
        boolean system = messages.getFirst().role().equals("system");
        if (this == LLAMA_3_1) {
            header("system", out).format(DATES);
            out.content(system ? Strip.both(messages.getFirst().content()) : "").marker("<|eot_id|>");
        }
        for (ChatMessage message : messages.subList(this == LLAMA_3_1 && system ? 1 : 0, messages.size())) {
            boolean tool = message.role().equals("tool");
            header(tool && this == LLAMA_3_1 ? "ipython" : message.role(), out);
            if (tool && this == LLAMA_3_1) {
                out.content("\"").content(message.content()).content("\"");
            } else {
                out.content(Strip.both(message.content()));
            }
            out.marker("<|eot_id|>");
        }
        if (options.addGenerationPrompt()) {
            header("assistant", out);
        }
        return out.finish();
    }

    @Override
    public ReplyReader replies(List<ChatMessage> messages, ChatOptions options) {
        return ReplyReader.plain();
    }

    private static PromptWriter header(String role, PromptWriter out) {
        return out.marker("<|start_header_id|>")
                .format(role)
                .marker("<|end_header_id|>")
                .format("\n\n");
    }
}
