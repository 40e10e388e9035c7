package millrace.streams.client;

import org.apache.kafka.common.KafkaException;
import org.jspecify.annotations.Nullable;

/// Why a request got no completion, or a client could not be opened; `code` is stable and begins the message.
///
/// | code                 | meaning                                                                        |
/// |----------------------|--------------------------------------------------------------------------------|
/// | `CLIENT_OPEN`        | the cluster, the registry or a topic could not be reached in time              |
/// | `CLIENT_SEND_FAILED` | the prompt was not acknowledged; it may have been taken all the same           |
/// | `CLIENT_TIMEOUT`     | no completion came within the request's timeout; it may come later             |
/// | `CLIENT_CLOSED`      | the client was closed before the completion came; it may come later            |
///
/// Where a prompt may have been taken, sending the same prompt under the same id again is safe: it is answered once.
public final class ClientException extends KafkaException {
    private static final long serialVersionUID = 1L;
    private final String code;

    ClientException(String code, String message, @Nullable Throwable cause) {
        super(code + ": " + message, cause);
        this.code = code;
    }

    public String code() {
        return code;
    }
}
