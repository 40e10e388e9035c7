package millrace.engine;

import java.util.Arrays;
import java.util.List;

/// What came of tokens that were drafted ahead, since the engine was opened.
///
/// @param steps steps that had drafts to check
/// @param drafted drafts by position, the first behind a sequence's last token at 0, that steps had to check
/// @param accepted how many of these were the token that was chosen there, as all before them were
public record DraftStats(long steps, List<Long> drafted, List<Long> accepted) {
    /// Nothing was drafted.
    public static final DraftStats NONE =
            of(0, new long[Speculation.MOST_TOKENS], new long[Speculation.MOST_TOKENS]);

    public DraftStats {
        drafted = List.copyOf(drafted);
        accepted = List.copyOf(accepted);
    }

    /// The same from arrays.
    public static DraftStats of(long steps, long[] drafted, long[] accepted) {
        return new DraftStats(
                steps, Arrays.stream(drafted).boxed().toList(), Arrays.stream(accepted).boxed().toList());
    }
}
