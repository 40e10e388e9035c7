package millrace.engine;

/// A checkpoint that cannot be trusted or is not supported; stops the start. Codes: `ST_*`, `IDX_*`, `TOK_*`,
/// `CONFIG_*`, `MODEL_*`, `TPL_*`.
public final class InvalidModelException extends EngineException {
    private static final long serialVersionUID = 1L;

    public InvalidModelException(String code, String message) {
        super(code, message);
    }

    public InvalidModelException(String code, String message, Throwable cause) {
        super(code, message, cause);
    }
}
