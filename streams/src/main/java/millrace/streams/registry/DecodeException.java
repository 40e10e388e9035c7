package millrace.streams.registry;

import org.apache.kafka.common.errors.SerializationException;

/// Bytes that are no record of the expected kind and never will be; `code` is stable.
///
/// | code                | meaning                                                             |
/// |---------------------|---------------------------------------------------------------------|
/// | `SCHEMA_NULL`       | no value                                                            |
/// | `SCHEMA_TOO_SHORT`  | fewer than the 5 bytes of magic byte and schema id                  |
/// | `SCHEMA_MAGIC`      | the first byte is not 0                                             |
/// | `SCHEMA_UNKNOWN_ID` | the registry has no schema of that id                               |
/// | `SCHEMA_FOREIGN`    | the schema is of another record, or cannot be read as the expected  |
/// | `AVRO_DECODE`       | the body is not what the schema says: cut, too long, out of range   |
///
/// The message never carries content of the record.
public final class DecodeException extends SerializationException {
    private static final long serialVersionUID = 1L;
    private final String code;

    DecodeException(String code, String message) {
        super(message);
        this.code = code;
    }

    DecodeException(String code, String message, Throwable cause) {
        super(message, cause);
        this.code = code;
    }

    public String code() {
        return code;
    }
}
