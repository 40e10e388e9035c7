package millrace.streams.batch;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.file.Path;
import java.util.List;
import millrace.streams.openai.ApiException;
import millrace.streams.openai.Json;
import org.jspecify.annotations.Nullable;

/// Writes the answers and the errors of a batch, in the order of its lines.
public final class BatchWriter {
    static final ApiException EXPIRED = new ApiException(408, "batch_error", "batch_expired", null,
            "the line was not answered before the batch expired", -1);
    static final ApiException CANCELLED = new ApiException(499, "batch_error", "batch_cancelled", null,
            "the line was not answered before the batch was cancelled", -1);
    private static final int REFUSED_LINE_BYTES = 1 << 20;

    /// Where lines go.
    public interface Sink {
        void line(ObjectNode line);
    }

    /// What was written.
    public record Counts(int results, int errors) {}

    private final Path directory;
    private final Manifest manifest;
    private final SentLog sent;
    private final AnswerLog answers;
    private final BatchStatus.@Nullable State ended;
    private final int mostBytes;

    /// @param ended how it ended, or null while it has not
    BatchWriter(Path directory, Manifest manifest, SentLog sent, AnswerLog answers, BatchStatus.@Nullable State ended, int mostBytes) {
        this.directory = directory;
        this.manifest = manifest;
        this.sent = sent;
        this.answers = answers;
        this.ended = ended;
        this.mostBytes = mostBytes;
    }

    Counts write(Sink results, Sink errors) {
        int good = 0;
        int bad = 0;
        int most = Sender.mostLineBytes(mostBytes);
        LineReader reader = new LineReader(manifest.endpoint(), most);
        try (InputLines lines = new InputLines(directory.resolve(BatchStore.INPUT), 0, 0, most);
                InputLines refusals = new InputLines(directory.resolve(SentLog.REFUSED), 0, 0, REFUSED_LINE_BYTES)) {
            for (InputLines.Line line = lines.next(); line != null && line.number() <= sent.line(); line = lines.next()) {
                if (line.isBlank()) {
                    continue;
                }
                int parts = sent.parts(line.number());
                if (parts == 0) {
                    errors.line(refused(refusals.next(), line.number()));
                    bad++;
                } else if (answers.answered(line.number()) >= parts) {
                    boolean failed = answers.hasError(line.number());
                    (failed ? errors : results).line(answered(line.number(), reader.read(line).customId()));
                    bad += failed ? 1 : 0;
                    good += failed ? 0 : 1;
                } else if (ended != null) {
                    ApiException why = ended == BatchStatus.State.CANCELLED ? CANCELLED : EXPIRED;
                    errors.line(ended(line.number(), reader.read(line).customId(), why.toJson().path("error"), null));
                    bad++;
                }
            }
        }
        return new Counts(good, bad);
    }

    private ObjectNode frame(int line, @Nullable String customId) {
        return Json.object().put("id", "batch_req_" + manifest.id().substring(manifest.id().indexOf('_') + 1) + "_" + line)
                .put("custom_id", customId);
    }

    /// A line that was refused before it was sent.
    private ObjectNode refused(InputLines.@Nullable Line refusal, int number) {
        if (refusal == null || refusal.bytes() == null) {
            throw new BatchException("BATCH_STATE", directory + ": the reason of line " + number + " is missing; the directory was changed");
        }
        ObjectNode why = Json.read(refusal.bytes());
        String customId = why.path("custom_id").asText();
        ObjectNode line = frame(number, customId.isEmpty() ? null : customId);
        ObjectNode response = line.putObject("response").put("status_code", why.path("status").asInt()).putNull("request_id");
        ObjectNode error = response.putObject("body").putObject("error");
        error.setAll((ObjectNode) why.get("error"));
        error.put("line", number);
        return line.putNull("error");
    }

    private ObjectNode answered(int number, String customId) {
        List<AnswerLog.Entry> entries = answers.of(number);
        for (AnswerLog.Entry entry : entries) {
            if (entry.kind() != AnswerLog.Kind.ANSWER) {
                return failed(number, customId, answers.text(entry));
            }
        }
        ObjectNode body = answers.text(entries.getFirst());
        for (AnswerLog.Entry entry : entries.subList(1, entries.size())) {
            merge(body, answers.text(entry), entry.part());
        }
        String id = body.path("id").asText();
        if (entries.size() > 1) {
            // The answers are one again: the id is that of the request, not of its first part.
            body.put("id", id.substring(0, id.lastIndexOf('.')));
        }
        ObjectNode line = frame(number, customId);
        line.putObject("response").put("status_code", 200).put("request_id", BatchRun.requestId(manifest, number)).set("body", body);
        return line.putNull("error");
    }

    private ObjectNode failed(int number, String customId, ObjectNode why) {
        String code = why.path("error").path("code").asText();
        if (code.equals("batch_expired") || code.equals("batch_cancelled")) {
            return ended(number, customId, why.path("error"), why.get("millrace"));
        }
        ObjectNode line = frame(number, customId);
        ObjectNode body = line.putObject("response").put("status_code", why.path("status").asInt())
                .put("request_id", BatchRun.requestId(manifest, number)).putObject("body");
        body.set("error", why.get("error"));
        ((ObjectNode) body.get("error")).put("line", number);
        body.set("millrace", why.get("millrace"));
        return line.putNull("error");
    }

    private ObjectNode ended(int number, String customId, JsonNode why, @Nullable JsonNode own) {
        ObjectNode line = frame(number, customId).putNull("response");
        ObjectNode error = line.putObject("error").put("code", why.path("code").asText()).put("message", why.path("message").asText())
                .put("line", number);
        if (own != null) {
            error.set("millrace", own);
        }
        return line;
    }

    /// Puts the choice of one body behind those of another.
    private static void merge(ObjectNode into, ObjectNode other, int part) {
        ObjectNode choice = (ObjectNode) other.path("choices").get(0);
        ((ArrayNode) into.get("choices")).add(choice.put("index", part));
        ObjectNode usage = (ObjectNode) into.get("usage");
        int generated = usage.path("completion_tokens").asInt() + other.path("usage").path("completion_tokens").asInt();
        usage.put("completion_tokens", generated).put("total_tokens", usage.path("prompt_tokens").asInt() + generated);
        ((ArrayNode) into.path("millrace").get("choices")).add(other.path("millrace").path("choices").get(0));
    }
}
