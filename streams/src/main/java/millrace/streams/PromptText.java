package millrace.streams;

import millrace.engine.PromptInput;
import millrace.engine.TextCodec;
import millrace.schemas.Prompt;

/// The text that a prompt record became, as the service makes it, without an engine.
public final class PromptText {
    private PromptText() {}

    /// Whether a model's chat format or tokenizer is needed to tell.
    public static boolean needsModel(Prompt prompt) {
        return prompt.getPrompt() == null;
    }

    /// @throws millrace.engine.InvalidRequestException for a prompt that cannot be rendered
    public static String of(Prompt prompt, TextCodec codec) {
        return switch (Intake.input(prompt)) {
            case PromptInput.Text text -> text.text();
            case PromptInput.TokenIds ids -> codec.decode(ids.ids().stream().mapToInt(Integer::intValue).toArray());
            case PromptInput.Messages messages -> codec.render(messages.messages(), messages.options()).text();
        };
    }
}
