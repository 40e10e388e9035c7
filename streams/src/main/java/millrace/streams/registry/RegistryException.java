package millrace.streams.registry;

import org.apache.kafka.common.KafkaException;

/// What a schema registry answered or failed to answer; `code` is stable.
///
/// | code                   | meaning                                                          | try again later |
/// |------------------------|------------------------------------------------------------------|-----------------|
/// | `REGISTRY_UNREACHABLE` | no connection to any of the URLs                                 | yes             |
/// | `REGISTRY_TIMEOUT`     | connected, no complete answer in time                            | yes             |
/// | `REGISTRY_FAILED`      | an answer that says the server is in trouble (429, 5xx)          | yes             |
/// | `REGISTRY_REDIRECT`    | an answer that points elsewhere; never followed                  | yes             |
/// | `REGISTRY_RESPONSE`    | an answer that is no registry's: HTML, broken JSON, far too long | yes             |
/// | `REGISTRY_REFUSED`     | the registry understood and said no (401, 404, 409, 422)         | no              |
/// | `SCHEMA_UNKNOWN_ID`    | the registry answers, and has no schema of that id               | no              |
/// | `SCHEMA_FOREIGN`       | the schema of that id is no Avro schema that is accepted here    | no              |
///
/// The codes `SCHEMA_*` are faults of the record that names the id; all others say nothing about the record.
public final class RegistryException extends KafkaException {
    private static final long serialVersionUID = 1L;
    private final String code;
    private final int errorCode;

    RegistryException(String code, String message) {
        this(code, 0, message);
    }

    RegistryException(String code, int errorCode, String message) {
        super(message);
        this.code = code;
        this.errorCode = errorCode;
    }

    RegistryException(String code, String message, Throwable cause) {
        super(message, cause);
        this.code = code;
        this.errorCode = 0;
    }

    public String code() {
        return code;
    }

    /// The registry's own `error_code` (40401, 409, ...), or 0.
    public int errorCode() {
        return errorCode;
    }

    /// Whether the same request may succeed later: the record that needs it is to be kept.
    public boolean isTransient() {
        return code.startsWith("REGISTRY_") && !code.equals("REGISTRY_REFUSED");
    }

    boolean isFaultOfRecord() {
        return code.startsWith("SCHEMA_");
    }
}
