package millrace.streams.registry.server;

/// A refusal of the registry: an HTTP status and the `error_code` that goes into the body.
final class RegistryError extends RuntimeException {
    private static final long serialVersionUID = 1L;
    private final int status;
    private final int code;

    RegistryError(int status, int code, String message) {
        super(message, null, false, false);
        this.status = status;
        this.code = code;
    }

    int status() {
        return status;
    }

    int code() {
        return code;
    }

    static RegistryError subjectNotFound(String subject) {
        return new RegistryError(404, 40401, "Subject '" + subject + "' not found.");
    }

    static RegistryError versionNotFound(String version) {
        return new RegistryError(404, 40402, "Version " + version + " not found.");
    }

    static RegistryError schemaNotFound(String what) {
        return new RegistryError(404, 40403, what.isEmpty() ? "Schema not found" : "Schema " + what + " not found");
    }
}
