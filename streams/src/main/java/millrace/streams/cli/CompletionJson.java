package millrace.streams.cli;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HexFormat;
import millrace.schemas.Completion;

/// A completion as one line of JSON, under the schema's names.
final class CompletionJson {
    private static final ObjectMapper JSON = new ObjectMapper();

    private CompletionJson() {}

    static String line(Completion completion) {
        ObjectNode node = JSON.createObjectNode()
                .put("request_id", completion.getRequestId())
                .put("model", completion.getModel())
                .put("model_digest", completion.getModelDigest())
                .put("kv_format", completion.getKvFormat())
                .put("weight_format", completion.getWeightFormat())
                .put("text", completion.getText())
                .put("finish_reason", completion.getFinishReason().name());
        if (completion.getTokenIds() != null) {
            completion.getTokenIds().forEach(node.putArray("token_ids")::add);
        }
        node.putObject("usage")
                .put("prompt_tokens", completion.getUsage().getPromptTokens())
                .put("completion_tokens", completion.getUsage().getCompletionTokens())
                .put("cached_prompt_tokens", completion.getUsage().getCachedPromptTokens());
        node.putObject("timings")
                .put("queued_us", completion.getTimings().getQueuedUs())
                .put("time_to_first_token_us", completion.getTimings().getTimeToFirstTokenUs())
                .put("decode_us", completion.getTimings().getDecodeUs());
        if (completion.getErrorCode() != null) {
            node.put("error_code", completion.getErrorCode()).put("error_message", completion.getErrorMessage());
        }
        node.put("seed", completion.getSeed());
        node.putObject("audit")
                .put("origin", completion.getAudit().getOrigin())
                .put("partition", completion.getAudit().getPartition())
                .put("seq", completion.getAudit().getSeq())
                .put("leaf", HexFormat.of().formatHex(completion.getAudit().getLeaf().bytes()));
        try {
            return JSON.writeValueAsString(node);
        } catch (JsonProcessingException e) {
            throw new IllegalStateException("a tree of text and numbers can be written", e);
        }
    }
}
