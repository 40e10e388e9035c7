package millrace.engine;

import java.util.List;
import org.jspecify.annotations.Nullable;

/// What the service needs of an engine. `Engine` is the real one; tests and benchmarks bring their own.
///
/// `prepare` is pure and may be called from any thread; `submit` never blocks. Listeners are called on the engine's
/// own thread and must only hand the event on.
public interface TextEngine extends AutoCloseable {
    ModelCard card();

    /// Validates the request against the model's and the engine's limits, applies the chat format and tokenizes.
    ///
    /// @throws InvalidRequestException with a stable code, when the request can never be served
    PreparedPrompt prepare(GenerationRequest request);

    /// Queues the prompt. The listener gets exactly one `onEnd`, unless the engine is closed first.
    Generation submit(PreparedPrompt prompt, GenerationListener listener);

    /// A reader for the text that answers this prompt: its chat format says what is answer, reasoning and call. What is no
    /// conversation is all content. Pure, for any thread; each generation, and each restart of one, takes a new reader.
    default ReplyReader replies(PreparedPrompt prompt) {
        return ReplyReader.plain();
    }

    /// The bytes that a token of the model's vocabulary adds to a text: none for special tokens and for ids without a
    /// token. A character may spread over several tokens. Pure, for any thread.
    default byte[] bytes(int token) {
        return new byte[0];
    }

    /// Prompts submitted and not yet ended, running or waiting.
    int load();

    /// What was done so far and what the KV cache holds.
    default EngineStats stats() {
        return EngineStats.NONE;
    }

    /// Why the engine takes no more work, or null while it does. A failed engine answers every prompt with `FAILED` and
    /// `ENGINE_FAILED`; only a new process helps.
    default @Nullable String failure() {
        return null;
    }

    /// What its checks say now.
    default IntegrityState integrity() {
        return IntegrityState.NONE;
    }

    /// Whether new work is started, as in [IntegrityState]. Stream threads ask at every turn: it must cost next to nothing.
    default boolean admitting() {
        return integrity().admitting();
    }

    /// Events with a number above `after`, oldest first. An engine keeps the last thousand. Stream threads ask at every turn.
    ///
    /// Who has read an event of damage may rely on two things: [#trusts] already knows of it, and no result that was
    /// computed again because of it was given to a listener before the event could be read.
    default List<IntegrityEvent> events(long after) {
        return List.of();
    }

    /// Whether nothing is known that speaks against this result. False when it was computed with what has been found
    /// damaged since: it must not be handed on; its prompt is to be submitted again.
    default boolean trusts(GenerationResult result) {
        return true;
    }

    /// Stops the step thread; generations that have not ended get no event.
    @Override
    void close();
}
