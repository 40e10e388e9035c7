package millrace.engine.guide;

/// A document that has gone where more alternatives are open than are followed.
public final class GuideLimitException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    GuideLimitException(int most) {
        super("response_format: expected at most " + most
                + " alternatives that are open at one place, got more; describe fewer that begin alike");
    }
}
