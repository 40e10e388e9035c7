package millrace.engine.batch;

import java.util.List;

/// The text of one completion as it grows, cut at the first stop string.
///
/// Text is released as soon as it can no longer be the beginning of a stop string: what ends like the beginning of one
/// is held back until the next piece decides. Strings are matched on the decoded text, so a stop string may begin and
/// end inside tokens. If several stop strings are complete at once, the one that starts first counts.
final class StopStrings {
    private final List<String> stops;
    private final StringBuilder text = new StringBuilder();
    private int released;
    private boolean stopped;

    StopStrings(List<String> stops) {
        this.stops = stops;
    }

    /// Adds a piece of whole code points; returns what may be shown now, maybe empty.
    String append(String piece) {
        if (stopped || piece.isEmpty()) {
            return "";
        }
        text.append(piece);
        int cut = firstStop();
        if (cut >= 0) {
            text.setLength(cut);
            stopped = true;
            return release(cut);
        }
        return release(text.length() - held());
    }

    /// Whether a stop string was reached; what comes after it is not part of the text.
    boolean stopped() {
        return stopped;
    }

    /// Releases what was held back; no more text will come.
    String finish() {
        return release(text.length());
    }

    /// The text so far, held-back parts included.
    String text() {
        return text.toString();
    }

    private String release(int end) {
        String delta = text.substring(released, end);
        released = end;
        return delta;
    }

    /// Start of the first complete stop string, or −1. Nothing before `released` can be part of one.
    private int firstStop() {
        int first = -1;
        for (String stop : stops) {
            int at = text.indexOf(stop, released);
            if (at >= 0 && (first < 0 || at < first)) {
                first = at;
            }
        }
        return first;
    }

    /// Length of the longest end of the text that is the beginning of a stop string.
    private int held() {
        int longest = 0;
        for (String stop : stops) {
            int most = Math.min(stop.length() - 1, text.length() - released);
            for (int n = most; n > longest; n--) {
                if (endsWith(stop, n)) {
                    longest = n;
                }
            }
        }
        return longest;
    }

    private boolean endsWith(String stop, int n) {
        int start = text.length() - n;
        for (int i = 0; i < n; i++) {
            if (text.charAt(start + i) != stop.charAt(i)) {
                return false;
            }
        }
        return true;
    }
}
