package millrace.streams;

import java.util.List;
import millrace.engine.FinishReason;
import millrace.engine.GenerationResult;
import millrace.engine.PreparedPrompt;
import millrace.engine.Timings;
import millrace.engine.Transcript;
import millrace.engine.Usage;
import millrace.schemas.Control;
import millrace.schemas.Prompt;
import org.jspecify.annotations.Nullable;

/// How one prompt record ended. Every outcome gets a leaf in the audit log.
sealed interface Outcome {
    Source source();

    /// The engine answered, or failed at this prompt.
    ///
    /// @param withheld earlier results for it that were not handed on, since the engine no longer trusted them
    record Answered(Source source, Prompt prompt, PreparedPrompt prepared, GenerationResult result, int withheld)
            implements Outcome {
        /// Tokens of the prompt and of the answer.
        long tokens() {
            return (long) result.usage().promptTokens() + result.usage().completionTokens();
        }

        /// The result of a prompt that ended before the engine had computed anything.
        static GenerationResult nothing(PreparedPrompt prepared, FinishReason reason) {
            return new GenerationResult(
                    "", List.of(), reason, new Usage(prepared.ids().length, 0, 0), Timings.NONE, null, null, Transcript.NONE);
        }
    }

    /// The prompt can be read but not be served; it is answered with the code and the message.
    ///
    /// @param retryAfterMs after how long it may be sent again, milliseconds; null where that does not help
    record Rejected(Source source, Prompt prompt, String code, String message, @Nullable Long retryAfterMs) implements Outcome {
        Rejected(Source source, Prompt prompt, String code, String message) {
            this(source, prompt, code, message, null);
        }
    }

    /// The record cannot be read; its bytes go to the dead-letter topic.
    record Undecodable(Source source, String code, String message) implements Outcome {}

    /// No prompt but an order of the operator, to be carried out on the log.
    record Ordered(Source source, Control control) implements Outcome {}
}
