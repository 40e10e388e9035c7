package millrace.engine.format;

/// A scale that no weight has.
public final class ScaleException extends IllegalArgumentException {
    private static final long serialVersionUID = 1L;

    public ScaleException(String message) {
        super(message);
    }
}
