package millrace.streams.batch;

import com.fasterxml.jackson.databind.node.ObjectNode;
import millrace.streams.openai.ApiException;
import millrace.streams.openai.Bodies;
import millrace.streams.openai.Fields;
import millrace.streams.openai.InferenceRequest;
import millrace.streams.openai.Json;
import org.jspecify.annotations.Nullable;

/// Reads the lines of a batch: a request each, or the reason why it is none.
final class LineReader {
    /// Longest `custom_id`, characters.
    private static final int MAX_CUSTOM_ID = 512;

    /// What a line asks for.
    ///
    /// @param customId the client's name of it; empty where it could not be read
    /// @param request null if the line is refused
    /// @param refusal why, or null
    record Parsed(String customId, @Nullable InferenceRequest request, @Nullable ApiException refusal) {
        /// How many prompt events it takes: 0 for a line that is refused.
        int parts() {
            return request == null ? 0 : request.n();
        }
    }

    private final Endpoint endpoint;
    private final int mostBytes;
    private final CustomIds ids = new CustomIds();

    LineReader(Endpoint endpoint, int mostBytes) {
        this.endpoint = endpoint;
        this.mostBytes = mostBytes;
    }

    /// Reads one line and remembers its id. Lines must come in order.
    Parsed read(InputLines.Line line) {
        String id = "";
        try {
            if (line.bytes() == null) {
                throw ApiException.invalid("line_too_long", null, "expected a line of at most " + mostBytes + " bytes, got more");
            }
            ObjectNode json = Json.read(line.bytes());
            Fields fields = new Fields(json, "");
            id = customId(fields);
            int first = ids.add(id, line.number());
            if (first != 0) {
                throw ApiException.invalid("duplicate_custom_id", "custom_id", "custom_id: expected one of its own, got that of line " + first);
            }
            return new Parsed(id, request(fields), null);
        } catch (ApiException e) {
            return new Parsed(id, null, e);
        }
    }

    private static String customId(Fields fields) {
        String id = fields.requiredText("custom_id");
        if (id.isEmpty() || id.length() > MAX_CUSTOM_ID) {
            throw ApiException.invalid("invalid_value", "custom_id",
                    "custom_id: expected 1 to " + MAX_CUSTOM_ID + " characters, got " + id.length());
        }
        return id;
    }

    private InferenceRequest request(Fields fields) {
        String method = fields.requiredText("method");
        if (!method.equals("POST")) {
            throw ApiException.invalid("invalid_method", "method", "method: expected POST, got another");
        }
        String url = fields.requiredText("url");
        if (!url.equals(endpoint.path())) {
            throw ApiException.invalid("mismatched_url", "url", "url: expected " + endpoint.path() + ", the endpoint of this batch, got another");
        }
        ObjectNode body = fields.object("body");
        if (body == null) {
            throw ApiException.invalid("missing_required_parameter", "body", "body: expected an object, got none");
        }
        fields.refuseTheRest();
        InferenceRequest request = endpoint.read(body);
        if (request.stream()) {
            throw ApiException.invalid("unsupported_parameter", "stream", "stream: a batch has no streams; leave it out");
        }
        return request;
    }
}
