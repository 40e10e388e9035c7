package millrace.streams;

import java.nio.charset.StandardCharsets;
import millrace.schemas.Prompt;

/// The key that a producer gives a prompt's record unless it has a reason for another.
public final class PromptKey {
    private PromptKey() {}

    /// The session, so that all turns of one conversation come to one partition, in order, and to the instance whose KV
    /// cache has the turns before; the request id where there is none.
    public static byte[] of(Prompt prompt) {
        String session = prompt.getSessionId();
        return (session == null ? prompt.getRequestId() : session).getBytes(StandardCharsets.UTF_8);
    }
}
