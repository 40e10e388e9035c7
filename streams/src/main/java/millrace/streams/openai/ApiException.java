package millrace.streams.openai;

import com.fasterxml.jackson.databind.node.ObjectNode;
import org.jspecify.annotations.Nullable;

/// A refusal or a failure in the form that clients of the interface expect.
public final class ApiException extends RuntimeException {
    private static final long serialVersionUID = 1L;
    private static final String INVALID = "invalid_request_error";

    private final int status;
    private final String type;
    private final @Nullable String code;
    private final @Nullable String param;
    private final long retryAfterMs;

    /// @param status of the HTTP answer
    /// @param param the JSON path of the field that is at fault, or null
    /// @param retryAfterMs when the same may be tried again; -1 where nothing is known of that
    public ApiException(int status, String type, @Nullable String code, @Nullable String param, String message, long retryAfterMs) {
        super(message, null, false, false);
        this.status = status;
        this.type = type;
        this.code = code;
        this.param = param;
        this.retryAfterMs = retryAfterMs;
    }

    /// A body that is not acceptable: 400.
    public static ApiException invalid(String code, @Nullable String param, String message) {
        return new ApiException(400, INVALID, code, param, message, -1);
    }

    static ApiException wrongType(String path, String expected, String got) {
        return invalid("invalid_type", path, path + ": expected " + expected + ", got " + got);
    }

    static ApiException wrongValue(String path, String message) {
        return invalid("invalid_value", path, path + ": " + message);
    }

    static ApiException missing(String path, String expected) {
        return invalid("missing_required_parameter", path, path + ": expected " + expected + ", got none");
    }

    /// A parameter that exists elsewhere and that this service cannot honour.
    static ApiException unsupported(String path, String why) {
        return invalid("unsupported_parameter", path, path + ": not supported: " + why + "; leave it out");
    }

    /// Something that does not exist: 404.
    public static ApiException notFound(String code, @Nullable String param, String message) {
        return new ApiException(404, INVALID, code, param, message, -1);
    }

    /// Something that went wrong on this side.
    public static ApiException server(int status, String code, String message) {
        return new ApiException(status, "server_error", code, null, message, -1);
    }

    public int status() {
        return status;
    }

    public @Nullable String code() {
        return code;
    }

    public @Nullable String param() {
        return param;
    }

    /// Milliseconds, or -1.
    public long retryAfterMs() {
        return retryAfterMs;
    }

    /// What went wrong; never null.
    public String text() {
        return String.valueOf(getMessage());
    }

    /// The body of the answer.
    public ObjectNode toJson() {
        ObjectNode body = Json.object();
        body.putObject("error").put("message", text()).put("type", type).put("param", param).put("code", code);
        return body;
    }
}
