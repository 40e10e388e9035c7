package millrace.streams.openai;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import millrace.schemas.AuditPosition;
import millrace.schemas.Completion;
import millrace.schemas.FinishReason;
import millrace.schemas.Reply;
import millrace.schemas.TokenLogprob;
import millrace.schemas.ToolCall;
import millrace.schemas.TopLogprob;
import org.jspecify.annotations.Nullable;

/// Completions as the bodies of answers, and those that are no answers as errors.
public final class Answers {
    /// What the interface says where a log probability has no number.
    private static final double NO_LOGPROB = -9999.0;
    private static final Set<String> TRANSIENT = Set.of("ENGINE_DOUBT", "KV_CORRUPT", "KV_RETIRED");

    private Answers() {}

    /// Why a completion is no answer, or null if it is one.
    public static @Nullable ApiException error(Completion completion) {
        String code = completion.getErrorCode() == null ? "UNKNOWN" : completion.getErrorCode();
        String message = completion.getErrorMessage() == null ? "the service gave no reason" : completion.getErrorMessage();
        return switch (completion.getFinishReason()) {
            case stop, length -> null;
            case deadline -> new ApiException(408, "timeout_error", "deadline_exceeded", null,
                    "the deadline passed after " + completion.getUsage().getCompletionTokens() + " tokens; give it more time or ask for fewer",
                    -1);
            case cancelled -> new ApiException(499, "request_cancelled", "cancelled", null, "the request was cancelled", -1);
            case rejected -> rejected(code, message, completion.getRetryAfterMs());
            case failed -> ApiException.server(TRANSIENT.contains(code) ? 503 : 500, code, message);
            case unknown -> ApiException.server(500, "UNKNOWN", "the service gave a reason that this version does not know");
        };
    }

    private static ApiException rejected(String code, String message, @Nullable Long retryAfterMs) {
        if (retryAfterMs != null || code.startsWith("QUOTA_")) {
            return new ApiException(429, "rate_limit_error", code, null, message, retryAfterMs == null ? -1 : retryAfterMs);
        }
        return switch (code) {
            case "MODEL_UNKNOWN" -> ApiException.notFound("model_not_found", "model", message);
            case "DEADLINE" -> new ApiException(408, "timeout_error", "deadline_exceeded", "millrace.deadline_ms", message, -1);
            case "PROMPT_TOO_LARGE", "CONTEXT_OVERFLOW" -> ApiException.invalid("context_length_exceeded", "messages", code + ": " + message);
            default -> ApiException.invalid(code, param(message), message);
        };
    }

    /// The service begins what it says with the field that it means.
    private static @Nullable String param(String message) {
        int colon = message.indexOf(": ");
        return colon > 0 && message.substring(0, colon).matches("[a-z_]{1,32}") ? message.substring(0, colon) : null;
    }

    /// The body of a chat completion.
    ///
    /// @param choices the answers in their order, at least one
    public static ObjectNode chat(String id, long createdSeconds, List<Completion> choices) {
        ObjectNode body = head(id, "chat.completion", createdSeconds, choices.getFirst());
        ArrayNode array = body.putArray("choices");
        for (int i = 0; i < choices.size(); i++) {
            Completion completion = choices.get(i);
            ObjectNode choice = array.addObject().put("index", i);
            message(choice.putObject("message").put("role", "assistant"), completion);
            choice.set("logprobs", logprobs(completion));
            choice.put("finish_reason", finish(completion));
        }
        body.set("usage", usage(choices));
        body.set("millrace", proof(choices));
        return body;
    }

    /// The body of a text completion.
    public static ObjectNode text(String id, long createdSeconds, List<Completion> choices) {
        ObjectNode body = head(id, "text_completion", createdSeconds, choices.getFirst());
        ArrayNode array = body.putArray("choices");
        for (int i = 0; i < choices.size(); i++) {
            array.addObject().put("index", i).put("text", choices.get(i).getText()).putNull("logprobs")
                    .put("finish_reason", finish(choices.get(i)));
        }
        body.set("usage", usage(choices));
        body.set("millrace", proof(choices));
        return body;
    }

    private static ObjectNode head(String id, String object, long createdSeconds, Completion first) {
        return Json.object().put("id", id).put("object", object).put("created", createdSeconds).put("model", first.getModel())
                .put("system_fingerprint", fingerprint(first));
    }

    /// Names what computed the answer: the beginning of the model's digest.
    public static String fingerprint(Completion completion) {
        String digest = completion.getModelDigest();
        return "fp_" + digest.substring(digest.indexOf(':') + 1).substring(0, Math.min(16, digest.length() - digest.indexOf(':') - 1));
    }

    private static void message(ObjectNode message, Completion completion) {
        Reply reply = completion.getReply();
        if (reply == null) {
            message.put("content", completion.getText()).putNull("refusal");
            return;
        }
        boolean calls = !reply.getToolCalls().isEmpty();
        message.put("content", calls && reply.getContent().isEmpty() ? null : reply.getContent()).putNull("refusal");
        if (reply.getReasoningContent() != null) {
            message.put("reasoning_content", reply.getReasoningContent());
        }
        if (calls) {
            ArrayNode array = message.putArray("tool_calls");
            reply.getToolCalls().forEach(call -> array.add(call(call)));
        }
    }

    /// A call of a tool.
    public static ObjectNode call(ToolCall call) {
        ObjectNode node = Json.object().put("id", call.getId()).put("type", "function");
        node.putObject("function").put("name", call.getName()).put("arguments", call.getArguments());
        return node;
    }

    /// Why generation ended, in the words of the interface.
    public static String finish(Completion completion) {
        Reply reply = completion.getReply();
        if (completion.getFinishReason() == FinishReason.length) {
            return "length";
        }
        return reply != null && !reply.getToolCalls().isEmpty() ? "tool_calls" : "stop";
    }

    /// The log probabilities, one entry for each generated token, or null.
    public static @Nullable ObjectNode logprobs(Completion completion) {
        if (completion.getLogprobs() == null) {
            return null;
        }
        ObjectNode node = Json.object();
        ArrayNode content = node.putArray("content");
        for (TokenLogprob token : completion.getLogprobs()) {
            ObjectNode entry = token(token.getBytes(), token.getLogprob());
            ArrayNode top = entry.putArray("top_logprobs");
            for (TopLogprob other : token.getTop()) {
                top.add(token(other.getBytes(), other.getLogprob()));
            }
            content.add(entry);
        }
        node.putNull("refusal");
        return node;
    }

    private static ObjectNode token(ByteBuffer bytes, float logprob) {
        byte[] raw = new byte[bytes.remaining()];
        bytes.duplicate().get(raw);
        ObjectNode node = Json.object().put("token", new String(raw, StandardCharsets.UTF_8))
                .put("logprob", Float.isFinite(logprob) ? (double) logprob : NO_LOGPROB);
        ArrayNode array = node.putArray("bytes");
        for (byte b : raw) {
            array.add(b & 0xff);
        }
        return node;
    }

    /// Counts of tokens: those of the prompt once, those of the answers together.
    public static ObjectNode usage(List<Completion> choices) {
        int prompt = choices.getFirst().getUsage().getPromptTokens();
        int generated = choices.stream().mapToInt(choice -> choice.getUsage().getCompletionTokens()).sum();
        ObjectNode usage = Json.object().put("prompt_tokens", prompt).put("completion_tokens", generated)
                .put("total_tokens", prompt + generated);
        usage.putObject("prompt_tokens_details").put("cached_tokens", choices.getFirst().getUsage().getCachedPromptTokens());
        return usage;
    }

    /// What no other service has to say: which model it was by its digest, and where each answer stands in the audit log.
    public static ObjectNode proof(List<Completion> choices) {
        ObjectNode node = Json.object().put("model_digest", choices.getFirst().getModelDigest());
        ArrayNode array = node.putArray("choices");
        for (Completion completion : choices) {
            ObjectNode choice = array.addObject().put("request_id", completion.getRequestId()).put("seed", completion.getSeed());
            choice.set("audit", audit(completion.getAudit()));
            if (completion.getTokenIds() != null) {
                completion.getTokenIds().forEach(choice.putArray("token_ids")::add);
            }
        }
        return node;
    }

    /// A place in the audit log.
    public static ObjectNode audit(AuditPosition at) {
        return Json.object().put("origin", at.getOrigin()).put("partition", at.getPartition()).put("seq", at.getSeq())
                .put("leaf", HexFormat.of().formatHex(at.getLeaf().bytes()));
    }
}
