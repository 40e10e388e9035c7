package millrace.streams.batch;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import millrace.schemas.Completion;
import millrace.streams.openai.Answers;
import millrace.streams.openai.Bodies;
import millrace.streams.openai.InferenceRequest;

/// What the requests of a batch are.
public enum Endpoint {
    CHAT("/v1/chat/completions"),
    TEXT("/v1/completions");

    private final String path;

    Endpoint(String path) {
        this.path = path;
    }

    public String path() {
        return path;
    }

    /// The endpoint of a path.
    ///
    /// @throws BatchException `BATCH_ENDPOINT`
    public static Endpoint of(String path) {
        for (Endpoint endpoint : values()) {
            if (endpoint.path.equals(path)) {
                return endpoint;
            }
        }
        throw new BatchException("BATCH_ENDPOINT", "endpoint: expected " + CHAT.path + " or " + TEXT.path + ", got another");
    }

    InferenceRequest read(ObjectNode body) {
        return switch (this) {
            case CHAT -> Bodies.chat(body);
            case TEXT -> Bodies.text(body);
        };
    }

    ObjectNode answer(Completion completion, long createdSeconds) {
        return switch (this) {
            case CHAT -> Answers.chat("chatcmpl-" + completion.getRequestId(), createdSeconds, List.of(completion));
            case TEXT -> Answers.text("cmpl-" + completion.getRequestId(), createdSeconds, List.of(completion));
        };
    }
}
