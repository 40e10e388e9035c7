package millrace.engine;

import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/// Whether tokens are drafted ahead by the model's draft layer and then checked, several in one step. It changes the time that
/// an answer takes and no bit of it.
///
/// @param mode when
/// @param tokens the most tokens that are drafted for a sequence in a step, 1 to [#MOST_TOKENS]
public record Speculation(Mode mode, int tokens) {
    /// The most tokens that may be drafted in a step.
    public static final int MOST_TOKENS = 3;

    /// No tokens are drafted.
    public static final Speculation OFF = new Speculation(Mode.OFF, 1);

    public Speculation {
        if (tokens < 1 || tokens > MOST_TOKENS) {
            throw new IllegalArgumentException("speculation: expected 1 to " + MOST_TOKENS + " tokens, got " + tokens);
        }
    }

    /// Reads `off`, `mtp`, `auto`, or with a number of tokens `mtp:2`.
    ///
    /// @throws IllegalArgumentException for anything else
    public static Speculation of(String text) {
        int at = text.indexOf(':');
        if (at < 0) {
            return new Speculation(Mode.ofId(text), 1);
        }
        String tokens = text.substring(at + 1);
        if (!tokens.matches("[1-9]\\d{0,3}")) {
            throw new IllegalArgumentException(
                    "speculation: expected 1 to " + MOST_TOKENS + " tokens, got \"" + tokens + "\"");
        }
        return new Speculation(Mode.ofId(text.substring(0, at)), Integer.parseInt(tokens));
    }

    /// The most rows of a sequence in a step that are drafts; 0 where none are drafted.
    public int drafts() {
        return mode == Mode.OFF ? 0 : tokens;
    }

    /// What [#of] reads.
    public String id() {
        return mode == Mode.OFF ? mode.id() : mode.id() + ":" + tokens;
    }

    /// When tokens are drafted.
    public enum Mode {
        OFF,
        /// In every step; a model without a draft layer stops the start.
        MTP,
        /// While it pays, if the model has a draft layer.
        AUTO;

        /// The name in configuration and records.
        public String id() {
            return name().toLowerCase(Locale.ROOT);
        }

        /// What configuration may say.
        public static List<String> ids() {
            return Arrays.stream(values()).map(Mode::id).toList();
        }

        public static Mode ofId(String id) {
            for (Mode mode : values()) {
                if (mode.id().equals(id)) {
                    return mode;
                }
            }
            throw new IllegalArgumentException(
                    "speculation: expected one of " + String.join(", ", ids()) + ", got \"" + id + "\"");
        }
    }
}
