package millrace.streams.bench;

import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import millrace.engine.Engine;
import millrace.engine.FinishReason;
import millrace.engine.GenerationListener;
import millrace.engine.GenerationRequest;
import millrace.engine.GenerationResult;
import millrace.engine.PreparedPrompt;
import millrace.engine.PromptInput;
import org.jspecify.annotations.Nullable;

/// Timed generations on an engine.
final class DecodeRun {
    private static final int VOCABULARY = 250;
    /// Prompt tokens of a step, as the engine has it by default, and tokens that a cached prompt still computes.
    private static final int CHUNK = 256;

    private static final int PAGE = 16;

    private DecodeRun() {}

    /// Tokens per second while `batch` sequences decode together; NaN if one of them ended too early to tell.
    ///
    /// All are submitted between two steps, by a listener: a small model would else be done with the first before this
    /// thread has submitted the second. Their prompts still take turns. So time is taken from the first token of the
    /// one that started last to the last token of the one that ended first: in between, every step is a step of the
    /// whole batch.
    ///
    /// Each sequence is counted for itself, between the first and the last of its tokens in that time: where tokens are drafted
    /// ahead, sequences of one step get different numbers of them.
    ///
    /// @param source what the sequences begin with, from number `first` on
    /// @param perStep the most tokens that a step gives a sequence
    /// @param uncached whether the prompts have to be computed, so that the first sequences wait longer for the last
    static double tokensPerSecond(
            Engine engine, Prompts source, int first, int batch, int context, int steps, int perStep, boolean uncached) {
        int waiting = 2 + (uncached ? Math.ceilDiv(batch * context, CHUNK) : batch * PAGE / CHUNK);
        List<Clock> clocks = new ArrayList<>();
        CountDownLatch open = new CountDownLatch(batch + 1);
        List<PreparedPrompt> prompts = new ArrayList<>();
        for (int sequence = 0; sequence < batch; sequence++) {
            clocks.add(new Clock(open));
            prompts.add(engine.prepare(GenerationRequest.greedy(
                    "decode " + sequence, source.prompt(context, first + sequence), (steps + waiting) * perStep)));
        }
        PreparedPrompt starter = engine.prepare(GenerationRequest.greedy("start", Prompts.RANDOM.prompt(1, -1), 1));
        engine.submit(starter, new Starter(open, () -> {
            for (int sequence = 0; sequence < batch; sequence++) {
                engine.submit(prompts.get(sequence), clocks.get(sequence));
            }
        }));
        await(open);
        clocks.forEach(Clock::check);
        if (batch == 1) {
            return clocks.getFirst().tokensPerSecond();
        }
        long start = clocks.stream().mapToLong(Clock::first).max().orElseThrow();
        long end = clocks.stream().mapToLong(Clock::last).min().orElseThrow();
        return batch * clocks.stream()
                .mapToDouble(clock -> clock.tokensPerSecond(start, end, Math.min(3, steps)))
                .filter(rate -> !Double.isNaN(rate)).average().orElse(Double.NaN);
    }

    /// Computes the prompts of a batch, one after the other, so that the prefix cache has them.
    static void prompts(Engine engine, int batch, int context) {
        for (int sequence = 0; sequence < batch; sequence++) {
            Run.all(engine, List.of(GenerationRequest.greedy("prompt " + sequence, Prompts.RANDOM.prompt(context, sequence), 1)));
        }
    }

    /// Tokens of a prompt over the time to its first token.
    static double prefillTokensPerSecond(Engine engine, int tokens, int round) {
        GenerationResult result = Run.all(engine, List.of(
                GenerationRequest.greedy("prefill", Prompts.RANDOM.prompt(tokens, 1_000 + round), 1))).getFirst();
        return tokens / ((result.timings().firstTokenNanos() - result.timings().queuedNanos()) / 1e9);
    }

    /// What sequences begin with; equal numbers give equal prompts.
    ///
    /// @param text ids to take prompts from, one behind the other; where there are none they are random, of ids that every vocabulary
    ///        has and that end nothing
    record Prompts(List<Integer> text) {
        static final Prompts RANDOM = new Prompts(List.of());

        Prompts {
            text = List.copyOf(text);
        }

        boolean random() {
            return text.isEmpty();
        }

        /// @param tokens not more than the text has
        PromptInput prompt(int tokens, int number) {
            if (random()) {
                return new PromptInput.TokenIds(
                        new SplittableRandom(number).ints(tokens, 1, VOCABULARY).boxed().collect(Collectors.toList()));
            }
            int start = (int) ((long) number * tokens % (text.size() - tokens + 1));
            return new PromptInput.TokenIds(text.subList(start, start + tokens));
        }
    }

    private static void await(CountDownLatch open) {
        try {
            open.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while measuring", e);
        }
    }

    /// A request that comes before the others and submits them from the engine's own thread.
    private record Starter(CountDownLatch open, Runnable others) implements GenerationListener {
        @Override
        public void onEnd(GenerationResult ended) {
            others.run();
            open.countDown();
        }
    }

    /// When the tokens of one sequence came, as far as each completed a character.
    private static final class Clock implements GenerationListener {
        private record Seen(long nanos, int tokens) {}

        private final List<Seen> seen = new ArrayList<>();
        private final CountDownLatch open;
        private volatile @Nullable GenerationResult result;

        Clock(CountDownLatch open) {
            this.open = open;
        }

        @Override
        public void onDelta(String text, int tokens) {
            seen.add(new Seen(System.nanoTime(), tokens));
        }

        @Override
        public void onEnd(GenerationResult ended) {
            result = ended;
            open.countDown();
        }

        void check() {
            GenerationResult ended = result;
            if (ended == null || ended.reason() == FinishReason.FAILED) {
                throw new IllegalStateException("a generation failed: "
                        + (ended == null ? "no end" : ended.errorCode() + ": " + ended.errorMessage()));
            }
            if (seen.isEmpty()) {
                seen.add(new Seen(0, 0));
            }
        }

        /// From the first token to the last, as the engine counts; NaN for fewer than three steps.
        double tokensPerSecond() {
            GenerationResult ended = result;
            if (ended == null || ended.tokenIds().size() < 4) {
                return Double.NaN;
            }
            return (ended.tokenIds().size() - 1) / (ended.timings().decodeNanos() / 1e9);
        }

        /// Of what was seen in that time; NaN if that are too few tokens.
        ///
        /// @param least tokens after the first
        double tokensPerSecond(long start, long end, int least) {
            List<Seen> between = seen.stream().filter(one -> one.nanos() >= start && one.nanos() <= end).toList();
            int tokens = between.isEmpty() ? 0 : between.getLast().tokens() - between.getFirst().tokens();
            return tokens < least
                    ? Double.NaN
                    : tokens / ((between.getLast().nanos() - between.getFirst().nanos()) / 1e9);
        }

        long first() {
            return seen.getFirst().nanos();
        }

        long last() {
            return seen.getLast().nanos();
        }
    }
}
