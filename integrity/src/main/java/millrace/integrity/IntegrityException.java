package millrace.integrity;

/// Something that is not what it claims to be: a malformed note, key, state or proof. The code is stable; the message
/// says where, what was expected, what came and what to do.
public final class IntegrityException extends RuntimeException {
    private static final long serialVersionUID = 1L;
    private final String code;

    public IntegrityException(String code, String message) {
        super(message);
        this.code = code;
    }

    public IntegrityException(String code, String message, Throwable cause) {
        super(message, cause);
        this.code = code;
    }

    public String code() {
        return code;
    }
}
