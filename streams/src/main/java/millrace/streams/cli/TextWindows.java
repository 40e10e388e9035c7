package millrace.streams.cli;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.IntStream;

/// A text's token ids in consecutive windows; each window's first token is not predicted, the last window may be
/// shorter.
record TextWindows(List<Integer> ids, int window) {
    /// @param where names the text, for messages
    static TextWindows of(List<Integer> ids, int window, String where) {
        if (ids.size() < 2) {
            throw new IllegalArgumentException(where + ": expected at least 2 token ids, got " + ids.size());
        }
        return new TextWindows(ids, window);
    }

    static TextWindows read(Path file, int window) throws IOException {
        return of(JsonLines.ids(JsonLines.file(file), file.toString()), window, file.toString());
    }

    int count() {
        return Math.ceilDiv(ids.size(), window);
    }

    List<List<Integer>> all() {
        return IntStream.range(0, count())
                .mapToObj(i -> ids.subList(i * window, Math.min(ids.size(), (i + 1) * window)))
                .toList();
    }

    /// Tokens that are predicted.
    int predicted() {
        return ids.size() - count();
    }
}
