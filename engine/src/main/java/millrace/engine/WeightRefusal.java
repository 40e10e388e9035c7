package millrace.engine;

/// Why [WeightGuard] lets the engine take no more work.
final class WeightRefusal extends Exception {
    private static final long serialVersionUID = 1L;
    private final IntegrityEvent.Kind kind;
    private final String code;
    private final String detail;
    private final long suspectFromStep;

    WeightRefusal(IntegrityEvent.Kind kind, String code, String detail, long suspectFromStep, String message) {
        super(message);
        this.kind = kind;
        this.code = code;
        this.detail = detail;
        this.suspectFromStep = suspectFromStep;
    }

    IntegrityEvent.Kind kind() {
        return kind;
    }

    String code() {
        return code;
    }

    String detail() {
        return detail;
    }

    /// As in [IntegrityEvent].
    long suspectFromStep() {
        return suspectFromStep;
    }
}
