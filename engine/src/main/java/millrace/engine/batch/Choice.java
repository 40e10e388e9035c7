package millrace.engine.batch;

import java.util.function.Supplier;
import millrace.engine.Sampling;
import millrace.engine.guide.GuideLimitException;
import millrace.engine.guide.GuideRun;
import millrace.engine.sampling.Sampler;
import org.jspecify.annotations.Nullable;

/// Chooses the tokens of one sequence: the sampler's choice among all, or among those that lead on to a document of the form that
/// was asked for.
final class Choice {
    /// No token leads on.
    static final String DEAD_END = "GUIDE_DEAD_END";

    /// More alternatives are open than are followed.
    static final String LIMIT = "GUIDE_LIMIT";

    /// In place of a token.
    static final int NONE = -1;

    private final Sampler sampler;
    private final Sampling sampling;
    private final @Nullable Supplier<GuideRun> begin;
    private @Nullable GuideRun guide;
    private String code = "";
    private String problem = "";

    /// @param begin begins a document, on the engine's thread; null for any text
    Choice(Sampler sampler, Sampling sampling, @Nullable Supplier<GuideRun> begin) {
        this.sampler = sampler;
        this.sampling = sampling;
        this.begin = begin;
    }

    /// The next token, or [#NONE] if there is none: then [#code] and [#problem] say why.
    ///
    /// @param known of the logits as they are, see [Sampler#choose]
    int choose(float[] logits, int offset, int known, int[] tokens, int length, long step) {
        GuideRun run = run();
        if (run == null) {
            return sampler.choose(logits, offset, known, sampling, tokens, length, step);
        }
        float[] masked = masked(run, logits, offset);
        return masked == null ? NONE : sampler.choose(masked, 0, sampling, tokens, length, step);
    }

    /// The token that would come behind tokens that are not taken, by the settings and the random number of its place; or
    /// [#NONE].
    ///
    /// @param known of the logits as they are, see [Sampler#choose]
    /// @param tokens `length` that are taken, then `drafts` that are not
    /// @param step of the first that is not
    int draft(float[] logits, int offset, int known, int[] tokens, int length, int drafts, long step) {
        GuideRun run = run();
        if (run == null) {
            return sampler.choose(logits, offset, known, sampling, tokens, length + drafts, step + drafts);
        }
        try {
            float[] masked = run.masked(logits, offset, tokens, length, drafts);
            return masked == null ? NONE : sampler.choose(masked, 0, sampling, tokens, length + drafts, step + drafts);
        } catch (GuideLimitException e) {
            // If it comes to that, the token itself will say so.
            return NONE;
        }
    }

    /// The logits that the choice is made of: −∞ for tokens that do not lead on; null if none does. Without a form the row itself
    /// is meant, which is not copied, and null is returned.
    float @Nullable [] masked(float[] logits, int offset) {
        GuideRun run = run();
        return run == null ? null : masked(run, logits, offset);
    }

    private float @Nullable [] masked(GuideRun run, float[] logits, int offset) {
        try {
            float[] masked = run.masked(logits, offset);
            if (masked == null) {
                fail(DEAD_END, "response_format: expected a vocabulary in which every document can be written, got none of its tokens"
                        + " that leads on; ask for text, or use a tokenizer that has every byte");
            }
            return masked;
        } catch (GuideLimitException e) {
            fail(LIMIT, String.valueOf(e.getMessage()));
            return null;
        }
    }

    private @Nullable GuideRun run() {
        if (guide == null && begin != null) {
            guide = begin.get();
        }
        return guide;
    }

    boolean guided() {
        return begin != null;
    }

    /// Takes a token that does not end the completion.
    ///
    /// @return false if it does not lead on; then nothing does
    boolean take(int token) {
        GuideRun run = run();
        if (run == null) {
            return true;
        }
        try {
            return run.advance(token);
        } catch (GuideLimitException e) {
            fail(LIMIT, String.valueOf(e.getMessage()));
            return false;
        }
    }

    /// Whether the document is whole and nothing can be added to it.
    boolean closed() {
        GuideRun run = run();
        return run != null && run.closed();
    }

    /// Begins anew with the tokens of a sequence that are left.
    void restart(Sequence sequence) {
        if (guide != null) {
            guide.restart();
            for (int i = sequence.promptLength; i < sequence.length(); i++) {
                take(sequence.tokens()[i]);
            }
        }
    }

    /// Begins anew.
    void restart() {
        if (guide != null) {
            guide.restart();
        }
    }

    private void fail(String with, String why) {
        code = with;
        problem = why;
    }

    String code() {
        return code;
    }

    String problem() {
        return problem;
    }
}
