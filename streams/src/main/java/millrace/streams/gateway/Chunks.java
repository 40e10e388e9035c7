package millrace.streams.gateway;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import millrace.schemas.Completion;
import millrace.streams.openai.Answers;
import millrace.streams.openai.Json;
import org.jspecify.annotations.Nullable;

/// The events of a stream, in the form of the interface.
final class Chunks {
    private final String id;
    private final boolean text;
    private final long createdSeconds;
    private final String model;
    private final boolean usage;

    /// @param text whether it is a text completion and no conversation
    /// @param usage whether the last event has the counts, and so the others have none
    Chunks(String id, boolean text, long createdSeconds, String model, boolean usage) {
        this.id = id;
        this.text = text;
        this.createdSeconds = createdSeconds;
        this.model = model;
        this.usage = usage;
    }

    private ObjectNode head(@Nullable Completion completion) {
        ObjectNode chunk = Json.object().put("id", id).put("object", text ? "text_completion" : "chat.completion.chunk")
                .put("created", createdSeconds).put("model", completion == null ? model : completion.getModel())
                .put("system_fingerprint", completion == null ? null : Answers.fingerprint(completion));
        if (usage) {
            chunk.putNull("usage");
        }
        return chunk;
    }

    /// The first event of an answer.
    ObjectNode role(int index) {
        return more(index, Json.object().put("role", "assistant").put("content", ""));
    }

    ObjectNode more(int index, ObjectNode delta) {
        ObjectNode chunk = head(null);
        ObjectNode choice = chunk.putArray("choices").addObject().put("index", index);
        if (text) {
            choice.put("text", delta.path("content").asText());
        } else {
            choice.set("delta", delta);
        }
        choice.putNull("logprobs").putNull("finish_reason");
        return chunk;
    }

    /// The last event of an answer: why it ended, its log probabilities, and where it stands in the audit log.
    ObjectNode finish(int index, Completion completion) {
        ObjectNode chunk = head(completion);
        ObjectNode choice = chunk.putArray("choices").addObject().put("index", index);
        if (text) {
            choice.put("text", "").putNull("logprobs");
        } else {
            choice.putObject("delta");
            choice.set("logprobs", Answers.logprobs(completion));
        }
        choice.put("finish_reason", Answers.finish(completion));
        chunk.set("millrace", Answers.proof(List.of(completion)));
        return chunk;
    }

    ObjectNode usage(List<Completion> completions) {
        ObjectNode chunk = head(completions.getFirst());
        chunk.putArray("choices");
        chunk.set("usage", Answers.usage(completions));
        return chunk;
    }
}
