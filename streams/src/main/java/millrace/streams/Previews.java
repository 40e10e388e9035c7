package millrace.streams;

import java.util.function.BooleanSupplier;
import millrace.engine.GenerationListener;
import millrace.engine.PreparedPrompt;
import millrace.schemas.Prompt;

/// Tells of a generation while it runs, to whom its prompt allows.
///
/// A preview is outside of every transaction, and nothing waits for it: see docs/adr/0040-previews.md.
@FunctionalInterface
interface Previews {
    /// No previews for anybody.
    Previews NONE = (request, over, end) -> end;

    /// A prompt that goes to the engine.
    ///
    /// @param again whether an earlier result of it was given up, so that what was shown of it is void
    record Shown(Source source, Prompt prompt, PreparedPrompt prepared, boolean again) {}

    /// What the engine is to call for this prompt: `end` itself where no preview is wanted.
    ///
    /// @param over whether the results of this generation do not count any more
    GenerationListener of(Shown request, BooleanSupplier over, GenerationListener end);
}
