package millrace.engine;

/// What the engine refuses or cannot do; `code` is stable and documented, the message says where, what, expected,
/// got, and what to do.
public sealed class EngineException extends RuntimeException
        permits InvalidModelException, InvalidRequestException, BackendException {
    private static final long serialVersionUID = 1L;
    private final String code;

    EngineException(String code, String message, Throwable cause) {
        super(message, cause);
        this.code = code;
    }

    EngineException(String code, String message) {
        super(message);
        this.code = code;
    }

    public final String code() {
        return code;
    }
}
