package millrace.streams.batch;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Objects;
import millrace.schemas.Completion;
import millrace.schemas.FinishReason;
import millrace.streams.openai.Answers;
import millrace.streams.openai.ApiException;
import millrace.streams.openai.Bodies;
import org.jspecify.annotations.Nullable;

/// Takes the completions of one batch out of those of all, the first of each part.
final class Collector implements BatchTopics.Sink {
    /// Where a part goes that a quota has put off.
    interface PutOff {
        void putOff(int line, int part, long notBeforeMs);
    }

    private final Manifest manifest;
    private final String prefix;
    private final SentLog sent;
    private final AnswerLog answers;
    private final PutOff putOff;
    private boolean news;

    Collector(Manifest manifest, SentLog sent, AnswerLog answers, PutOff putOff) {
        this.manifest = manifest;
        this.prefix = manifest.id() + ".";
        this.sent = sent;
        this.answers = answers;
        this.putOff = putOff;
    }

    /// Whether anything was taken since the last time that this was asked.
    boolean hasNews() {
        boolean had = news;
        news = false;
        return had;
    }

    @Override
    public void completion(int partition, long offset, long timestampMs, Completion completion) {
        String id = completion.getRequestId();
        if (!id.startsWith(prefix) || !Objects.equals(completion.getTenant(), manifest.tenant())) {
            return;
        }
        int dot = id.indexOf('.', prefix.length());
        int line = number(id.substring(prefix.length(), dot < 0 ? id.length() : dot), Integer.MAX_VALUE);
        int part = dot < 0 ? 0 : number(id.substring(dot + 1), Bodies.MAX_N - 1);
        if (line < 1 || part < 0 || line <= sent.line() && part >= sent.parts(line)) {
            return;
        }
        news = true;
        Long retryAfterMs = completion.getRetryAfterMs();
        if (completion.getFinishReason() == FinishReason.rejected && retryAfterMs != null) {
            long notBefore = timestampMs + retryAfterMs;
            answers.again(line, part, notBefore);
            putOff.putOff(line, part, notBefore);
            return;
        }
        if ("DUPLICATE_ID_CONFLICT".equals(completion.getErrorCode())) {
            // Another version of this program read the line in another way; the first has its answer.
            return;
        }
        ApiException error = Answers.error(completion);
        if (error == null) {
            answers.add(line, part, AnswerLog.Kind.ANSWER, manifest.endpoint().answer(completion, timestampMs / 1_000));
        } else {
            ApiException why = inBatch(completion, error, timestampMs);
            answers.add(line, part, why == error ? AnswerLog.Kind.ERROR : AnswerLog.Kind.ENDED, error(completion, why));
        }
    }

    /// The error of a line that ended because the batch did.
    private ApiException inBatch(Completion completion, ApiException error, long timestampMs) {
        boolean late = "deadline_exceeded".equals(error.code());
        if (late && timestampMs >= manifest.expiresMs() - 1_000) {
            return BatchWriter.EXPIRED;
        }
        return completion.getFinishReason() == FinishReason.cancelled ? BatchWriter.CANCELLED : error;
    }

    private static ObjectNode error(Completion completion, ApiException error) {
        ObjectNode node = error.toJson().put("status", error.status());
        ObjectNode own = node.putObject("millrace").put("request_id", completion.getRequestId());
        own.set("audit", Answers.audit(completion.getAudit()));
        return node;
    }

    private static int number(String digits, int most) {
        @Nullable Integer value = null;
        if (!digits.isEmpty() && digits.length() < 10 && digits.chars().allMatch(c -> c >= '0' && c <= '9')) {
            value = Integer.valueOf(digits);
        }
        return value == null || value > most ? -1 : value;
    }
}
