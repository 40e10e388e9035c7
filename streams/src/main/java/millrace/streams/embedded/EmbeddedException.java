package millrace.streams.embedded;

/// What an embedded server cannot do; `code` is stable: `EMBEDDED_PORT` (the port is taken), `EMBEDDED_DIR` (the
/// directory is in use or cannot be written), `EMBEDDED_START` (anything else that stops the start),
/// `EMBEDDED_STORE` (the registry cannot read or write its topic).
public final class EmbeddedException extends RuntimeException {
    private static final long serialVersionUID = 1L;
    private final String code;

    EmbeddedException(String code, String message) {
        super(message);
        this.code = code;
    }

    EmbeddedException(String code, String message, Throwable cause) {
        super(message, cause);
        this.code = code;
    }

    public String code() {
        return code;
    }
}
