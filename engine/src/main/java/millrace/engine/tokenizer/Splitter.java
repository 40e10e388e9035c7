package millrace.engine.tokenizer;

import java.util.List;
import java.util.regex.Matcher;
import millrace.engine.InvalidRequestException;
import millrace.engine.weights.BudgetedText;

/// The pre-tokenizer: cuts a text into the pieces inside of which merging happens, stage by stage.
final class Splitter {
    /// What becomes of matches and of the gaps between them.
    enum Behavior {
        ISOLATED,
        REMOVED,
        MERGED_WITH_PREVIOUS,
        MERGED_WITH_NEXT,
        CONTIGUOUS
    }

    /// @param invert whether the gaps play the part of the matches
    record Stage(SplitPattern pattern, Behavior behavior, boolean invert) {
        static Stage isolated(SplitPattern pattern) {
            return new Stage(pattern, Behavior.ISOLATED, false);
        }
    }

    /// Takes the pieces `text[from, to)` from left to right.
    @FunctionalInterface
    interface Sink {
        void piece(int from, int to);
    }

    private static final int READS_PER_CHAR = 128;
    private static final int READS_EXTRA = 100_000;

    private final List<Stage> stages;

    Splitter(List<Stage> stages) {
        this.stages = List.copyOf(stages);
    }

    /// @throws InvalidRequestException PROMPT_TOO_COMPLEX if an unknown pattern reads the text too often
    void split(String text, Sink sink) {
        Sink next = sink;
        for (Stage stage : stages.reversed()) {
            CharSequence input = stage.pattern().trusted() ? text : budgeted(text);
            next = new Run(stage, stage.pattern().pattern().matcher(input), next);
        }
        if (!text.isEmpty()) {
            next.piece(0, text.length());
        }
    }

    /// One stage at work on one text; sees each range as if it were the whole.
    private static final class Run implements Sink {
        private final Stage stage;
        private final Matcher matcher;
        private final Sink sink;
        private int pendingFrom = -1;
        private int pendingTo = -1;
        private boolean pendingMatch;

        Run(Stage stage, Matcher matcher, Sink sink) {
            this.stage = stage;
            this.matcher = matcher;
            this.sink = sink;
        }

        @Override
        public void piece(int from, int to) {
            matcher.region(from, to);
            int done = from;
            while (matcher.find()) {
                if (matcher.end() == matcher.start()) {
                    continue;
                }
                part(done, matcher.start(), stage.invert());
                part(matcher.start(), matcher.end(), !stage.invert());
                done = matcher.end();
            }
            part(done, to, stage.invert());
            flush();
        }

        private void part(int from, int to, boolean match) {
            if (from == to) {
                return;
            }
            switch (stage.behavior()) {
                case ISOLATED -> sink.piece(from, to);
                case REMOVED -> {
                    if (!match) {
                        sink.piece(from, to);
                    }
                }
                case CONTIGUOUS -> join(from, to, match, pendingMatch == match);
                case MERGED_WITH_PREVIOUS -> join(from, to, match, match && !pendingMatch);
                case MERGED_WITH_NEXT -> join(from, to, match, pendingMatch && !match);
            }
        }

        private void join(int from, int to, boolean match, boolean together) {
            if (pendingFrom >= 0 && together) {
                pendingTo = to;
            } else {
                flush();
                pendingFrom = from;
                pendingTo = to;
            }
            pendingMatch = match;
        }

        private void flush() {
            if (pendingFrom >= 0) {
                sink.piece(pendingFrom, pendingTo);
            }
            pendingFrom = -1;
            pendingMatch = false;
        }
    }

    private static CharSequence budgeted(String text) {
        long reads = (long) READS_PER_CHAR * text.length() + READS_EXTRA;
        return new BudgetedText(text, reads, () -> tooComplex(text.length()));
    }

    private static InvalidRequestException tooComplex(int length) {
        return new InvalidRequestException(
                "PROMPT_TOO_COMPLEX",
                ("prompt: the model's split pattern: expected at most %d reads per character,"
                                + " got more on %d characters; shorten runs of like characters")
                        .formatted(READS_PER_CHAR, length));
    }
}
