package millrace.engine;

/// A backend that was asked for and cannot be had, or that failed.
public sealed class BackendException extends EngineException permits DeviceException {
    private static final long serialVersionUID = 1L;

    public BackendException(String code, String message) {
        super(code, message);
    }
}
