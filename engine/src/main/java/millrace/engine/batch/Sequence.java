package millrace.engine.batch;

import millrace.engine.FinishReason;
import millrace.engine.kv.PageTable;
import millrace.engine.kv.PrefixKey;
import org.jspecify.annotations.Nullable;

/// One request's progress: its tokens, how many of them the KV pages hold, and the facts for its result.
///
/// ```
///  tokens   [ prompt ............... | generated ... ]
///            0          computed ▲                    ▲ length
/// ```
///
/// `computed == length − 1` is a sequence that decodes; anything less is prefill. After a preemption `computed` is 0
/// and the tokens, generated ones included, are computed again where the prefix index has lost them. Only [#cancel] may
/// be called from other threads.
final class Sequence {
    final String id;
    final Work work;
    final int priority;
    final long deadlineMs;
    final long submittedNanos;
    final int promptLength;
    private final PrefixKey whole;
    private final PrefixKey undraftedPages;
    private final int[] tokens;

    /// The step that gave each generated token.
    private final long[] tokenSteps;

    private int length;

    /// The step that is being delivered; set by the scheduler.
    long step;

    /// Order of submission, set by the scheduler.
    long ticket;

    /// Priority less the age of the world at submission, see [Scheduler]; set by the scheduler, higher is better.
    long standing;

    /// Tokens whose keys and values the pages hold.
    int computed;

    /// Positions whose logits have been delivered, for work that wants all.
    int delivered;

    /// The last step that gave it logits.
    long lastDelivery;

    /// Whether the draft layer is not fed with it though there is one: decided when it gets pages, and so long as it holds them.
    boolean undrafted;

    /// Tokens that were drafted: they stand behind its own in [#tokens].
    int drafts;

    /// Why it ends with the step that is handed out; null if it does not.
    @Nullable FinishReason ending;

    @Nullable PageTable pages;

    int steps;
    int recomputedSteps;

    /// Prompt tokens that came from the prefix index before the first [#rewind] that gave up a step.
    int cachedPromptTokens;

    private boolean rewound;
    int maxBatch;
    boolean numericGuard = true;

    /// Whether products of integers in one of its steps were computed twice, and agreed.
    boolean productsChecked;

    int numericFailures;

    /// What was wrong with the logits that were refused last.
    String problem = "";

    /// The code of a problem that ends it.
    String code = "";

    /// Whether it is the golden prompt, which is computed also while nothing else is admitted.
    boolean probe;

    /// Pages whose digest was compared for it.
    int pagesVerified;

    /// How often pages that it held were found damaged.
    int pagesDamaged;
    long firstStepNanos = -1;
    long firstTokenNanos = -1;
    long lastTokenNanos = -1;
    private volatile boolean cancelled;

    /// @param cacheSalt with whom it may share pages: those with an equal salt
    /// @param maxNewTokens room for generated tokens
    Sequence(
            String id,
            int[] prompt,
            int maxNewTokens,
            int priority,
            long deadlineMs,
            String cacheSalt,
            long submittedNanos,
            Work work) {
        this.id = id;
        this.priority = priority;
        this.deadlineMs = deadlineMs;
        this.submittedNanos = submittedNanos;
        this.work = work;
        whole = new PrefixKey(cacheSalt);
        undraftedPages = whole.undrafted();
        promptLength = prompt.length;
        tokens = java.util.Arrays.copyOf(prompt, prompt.length + maxNewTokens);
        tokenSteps = new long[maxNewTokens];
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

    /// Tokens of which every layer has what it keeps: a draft layer needs the token that follows.
    ///
    /// @param drafted whether there is a draft layer
    int complete(boolean drafted) {
        return drafted && !undrafted ? Math.min(computed, length - 1) : computed;
    }

    /// The names of its pages.
    PrefixKey names() {
        return undrafted ? undraftedPages : whole;
    }

    void append(int token) {
        tokenSteps[generated()] = step;
        tokens[length++] = token;
    }

    /// The step that gave the last token; 0 without one.
    long lastStep() {
        return generated() == 0 ? 0 : tokenSteps[generated() - 1];
    }

    /// Whether something was made of steps after this one.
    boolean tookFrom(long lastGoodStep) {
        return lastDelivery > lastGoodStep;
    }

    /// Drops the generated tokens that came after this step: they are in doubt.
    void dropAfter(long lastGoodStep) {
        int kept = generated();
        while (kept > 0 && tokenSteps[kept - 1] > lastGoodStep) {
            kept--;
        }
        keep(kept);
        lastDelivery = Math.min(lastDelivery, lastGoodStep);
    }

    /// Keeps so many generated tokens and drops the others.
    void keep(int generated) {
        length = promptLength + generated;
        drafts = 0;
        ending = null;
        whole.keep(length);
        undraftedPages.keep(length);
        if (generated == 0) {
            firstTokenNanos = -1;
        }
    }

    /// The reason to end it that does not come from its tokens, or null.
    @Nullable FinishReason interruption(long nowMs) {
        if (cancelled) {
            return FinishReason.CANCELLED;
        }
        return nowMs >= deadlineMs ? FinishReason.DEADLINE : null;
    }

    /// Whether `this` runs before `other` and is preempted after it. A total order that never changes.
    boolean outranks(Sequence other) {
        if (standing != other.standing) {
            return standing > other.standing;
        }
        return deadlineMs != other.deadlineMs ? deadlineMs < other.deadlineMs : ticket < other.ticket;
    }

    /// The most of its first pages that need not be computed: the last token always is, and every position whose logits
    /// are still wanted.
    int reusablePages(int pageTokens) {
        int tokens = length - 1;
        if (work.wanted() == StepPlan.Logits.ALL) {
            tokens = Math.min(tokens, delivered);
        }
        return tokens / pageTokens;
    }

    /// Whether it has computed before what it is about to compute.
    boolean rewound() {
        return rewound;
    }

    /// Takes up computing behind pages from the index.
    void skip(int tokens) {
        if (!rewound) {
            cachedPromptTokens += Math.min(tokens, Math.max(0, promptLength - computed));
        }
        computed += tokens;
    }

    /// Has given its pages back; what the index does not keep of them is computed again later.
    void rewind() {
        if (steps == 0 && !rewound) {
            cachedPromptTokens = 0;
        } else {
            rewound = true;
        }
        recomputedSteps += steps;
        steps = 0;
        computed = 0;
        drafts = 0;
    }
}
