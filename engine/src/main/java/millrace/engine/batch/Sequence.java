package millrace.engine.batch;

import millrace.engine.FinishReason;
import millrace.engine.kv.PageTable;
import org.jspecify.annotations.Nullable;

/// One request's progress: its tokens, how many of them the KV pages hold, and the facts for its result.
///
/// ```
///  tokens   [ prompt ............... | generated ... ]
///            0          computed ▲                    ▲ length
/// ```
///
/// `computed == length − 1` is a sequence that decodes; anything less is prefill. After a preemption `computed` is 0 and
/// the tokens, generated ones included, are computed again. Only [#cancel] may be called from other threads.
final class Sequence {
    final String id;
    final Work work;
    final int priority;
    final long deadlineMs;
    final long submittedNanos;
    final int promptLength;
    private final int[] tokens;
    private int length;

    /// Order of submission, set by the scheduler; the rank among equal priorities.
    long ticket;

    /// Tokens whose keys and values the pages hold.
    int computed;

    /// Positions whose logits have been delivered, for work that wants all.
    int delivered;

    @Nullable PageTable pages;

    int steps;
    int recomputedSteps;
    int maxBatch;
    boolean numericGuard = true;
    int numericFailures;
    long firstStepNanos = -1;
    long firstTokenNanos = -1;
    long lastTokenNanos = -1;
    private volatile boolean cancelled;

    /// @param maxNewTokens room for generated tokens
    Sequence(String id, int[] prompt, int maxNewTokens, int priority, long deadlineMs, long submittedNanos, Work work) {
        this.id = id;
        this.priority = priority;
        this.deadlineMs = deadlineMs;
        this.submittedNanos = submittedNanos;
        this.work = work;
        promptLength = prompt.length;
        tokens = java.util.Arrays.copyOf(prompt, prompt.length + maxNewTokens);
        length = prompt.length;
    }

    void cancel() {
        cancelled = true;
    }

    boolean cancelled() {
        return cancelled;
    }

    int[] tokens() {
        return tokens;
    }

    int length() {
        return length;
    }

    int generated() {
        return length - promptLength;
    }

    boolean decoding() {
        return computed == length - 1 && length > promptLength;
    }

    void append(int token) {
        tokens[length++] = token;
    }

    /// The reason to end it that does not come from its tokens, or null.
    @Nullable FinishReason interruption(long nowMs) {
        if (cancelled) {
            return FinishReason.CANCELLED;
        }
        return nowMs >= deadlineMs ? FinishReason.DEADLINE : null;
    }

    /// Whether `this` runs before `other` and is preempted after it: higher priority, then earlier submission.
    boolean outranks(Sequence other) {
        return priority != other.priority ? priority > other.priority : ticket < other.ticket;
    }

    /// Gives its pages back; everything is computed again later.
    void rewind() {
        if (pages != null) {
            pages.release();
            pages = null;
        }
        recomputedSteps += steps;
        steps = 0;
        computed = 0;
    }
}
