package millrace.streams.batch;

import com.fasterxml.jackson.databind.node.ObjectNode;
import millrace.streams.openai.Json;

/// How a batch stands.
///
/// @param state the interface's word for it
/// @param total lines that are not blank
/// @param completed lines with an answer
/// @param failed lines with an error, those that were refused before they were sent included
/// @param sentLines how far the input was read; with `sent`, all of it was sent
/// @param endedMs when it was completed, expired or cancelled; -1 while it is none of these
public record BatchStatus(Manifest manifest, State state, int total, int completed, int failed, int sentLines, boolean sent, long endedMs) {
    /// The interface's words.
    public enum State {
        IN_PROGRESS, COMPLETED, EXPIRED, CANCELLING, CANCELLED;

        /// In lower case, as clients know it.
        public String word() {
            return name().toLowerCase(java.util.Locale.ROOT);
        }

        /// Whether nothing will change any more.
        public boolean isFinal() {
            return this != IN_PROGRESS && this != CANCELLING;
        }
    }

    /// For scripts.
    public ObjectNode toJson() {
        ObjectNode node = Json.object().put("id", manifest.id()).put("status", state.word()).put("endpoint", manifest.endpoint().path())
                .put("input", manifest.inputName()).put("created_ms", manifest.createdMs()).put("expires_ms", manifest.expiresMs());
        if (endedMs >= 0) {
            node.put("ended_ms", endedMs);
        }
        node.putObject("lines").put("total", total).put("completed", completed).put("failed", failed)
                .put("waiting", total - completed - failed);
        return node.put("sent", sent);
    }
}
