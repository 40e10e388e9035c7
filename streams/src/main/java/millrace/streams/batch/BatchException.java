package millrace.streams.batch;

/// Why a batch cannot be made, found or worked on.
public final class BatchException extends IllegalStateException {
    private static final long serialVersionUID = 1L;

    private final String code;

    BatchException(String code, String message) {
        super(code + ": " + message);
        this.code = code;
    }

    public String code() {
        return code;
    }
}
