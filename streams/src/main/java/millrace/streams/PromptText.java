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

    /// What the choice of tokens was held to, as the leaf commits to it; empty for nothing.
    ///
    /// @throws millrace.engine.InvalidRequestException for a form that the service refuses
    public static String guide(Prompt prompt) {
        String text = Attestations.guideText(Intake.format(prompt), prompt.getResponseFormat());
        return text == null ? "" : text;
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
