package millrace.engine.tokenizer;

import java.util.List;
import java.util.stream.Collectors;
import millrace.engine.ChatMessage;
import millrace.engine.ChatOptions;
import millrace.engine.ReplyReader;

/// The format of DeepSeek: all system texts first and unmarked, then a marker per turn.
enum DeepSeekFormat implements ChatFormat {
    /// DeepSeek-V3, without tools.
    V3;

    private static final String BEGIN = "<｜begin▁of▁sentence｜>";
    private static final String END = "<｜end▁of▁sentence｜>";
    static final String USER = "<｜User｜>";
    static final String ASSISTANT = "<｜Assistant｜>";

    @Override
    public String id() {
        return "deepseek-v3";
    }

    @Override
    public List<String> markers() {
        return List.of(BEGIN, END, USER, ASSISTANT);
    }

    @Override
    public Rendered render(List<ChatMessage> messages, ChatOptions options, Tokenizer tokenizer) {
        Conversation conversation = Conversation.of(messages, options);
        conversation.refuseTools(id());
        PromptWriter out = new PromptWriter(tokenizer, this).marker(BEGIN);
        out.content(messages.stream()
                .filter(message -> message.role().equals("system"))
                .map(ChatMessage::content)
                .collect(Collectors.joining("\n\n")));
        for (int i = 0; i < messages.size(); i++) {
            ChatMessage message = messages.get(i);
            switch (message.role()) {
                case "user" -> out.marker(USER).content(message.content());
                case "assistant" ->
                    out.marker(ASSISTANT).content(message.content()).marker(END);
                case "tool" -> throw PythonJson.invalid("messages[" + i + "].role", "no tool in " + id(), "tool");
                default -> {}
            }
        }
        if (options.addGenerationPrompt()) {
            out.marker(ASSISTANT);
        }
        return out.finish();
    }

    @Override
    public ReplyReader replies(List<ChatMessage> messages, ChatOptions options) {
        return ReplyReader.plain();
    }
}
