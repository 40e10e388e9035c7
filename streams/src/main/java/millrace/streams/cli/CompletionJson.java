package millrace.streams.cli;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import millrace.schemas.Completion;
import millrace.schemas.Reply;
import millrace.schemas.TokenLogprob;
import millrace.schemas.ToolCall;
import millrace.schemas.TopLogprob;
import org.jspecify.annotations.Nullable;

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
        beside(node, completion.getReply(), completion.getLogprobs());
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

    /// What an answer says beside its text; fields that are null are left out.
    static void beside(ObjectNode node, @Nullable Reply reply, @Nullable List<TokenLogprob> logprobs) {
        if (reply != null) {
            ObjectNode told = node.putObject("reply").put("content", reply.getContent());
            if (reply.getReasoningContent() != null) {
                told.put("reasoning_content", reply.getReasoningContent());
            }
            ArrayNode calls = told.putArray("tool_calls");
            for (ToolCall call : reply.getToolCalls()) {
                calls.addObject().put("id", call.getId()).put("name", call.getName()).put("arguments", call.getArguments());
            }
        }
        if (logprobs != null) {
            ArrayNode tokens = node.putArray("logprobs");
            for (TokenLogprob token : logprobs) {
                ObjectNode one = likely(tokens.addObject(), token.getTokenId(), token.getBytes(), token.getLogprob());
                ArrayNode top = one.putArray("top");
                for (TopLogprob other : token.getTop()) {
                    likely(top.addObject(), other.getTokenId(), other.getBytes(), other.getLogprob());
                }
            }
        }
    }

    private static ObjectNode likely(ObjectNode node, int id, ByteBuffer bytes, float logprob) {
        node.put("token_id", id).put("token", StandardCharsets.UTF_8.decode(bytes.duplicate()).toString());
        ArrayNode values = node.putArray("bytes");
        for (int i = bytes.position(); i < bytes.limit(); i++) {
            values.add(bytes.get(i) & 0xff);
        }
        return node.put("logprob", logprob);
    }
}
