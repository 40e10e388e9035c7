package millrace.streams;

import java.nio.charset.StandardCharsets;
import java.time.Clock;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import millrace.engine.ChatMessage;
import millrace.engine.ChatOptions;
import millrace.engine.GenerationRequest;
import millrace.engine.InvalidRequestException;
import millrace.engine.PreparedPrompt;
import millrace.engine.PromptInput;
import millrace.engine.ResponseFormat;
import millrace.engine.Sampling;
import millrace.engine.TextEngine;
import millrace.engine.ToolCall;
import millrace.schemas.Message;
import millrace.schemas.Prompt;
import org.apache.kafka.common.header.Header;
import org.jspecify.annotations.Nullable;

/// Decides whether a decoded prompt can be served, and prepares it. Limits come before work; nothing is kept.
final class Intake {
    private static final Pattern ID = Pattern.compile("[A-Za-z0-9._:-]{1,128}");
    private static final Pattern TENANT = Pattern.compile("[A-Za-z0-9._:-]{1,64}");
    private static final int MAX_METADATA = 32;
    private static final int MAX_METADATA_CHARS = 512;
    private static final int MAX_PRIORITY = 100;
    private static final int SHOWN_CHARS = 40;
    private static final String TOOLS_NONE = "none";
    /// A deadline further away than this is taken for a mistake of units or of a clock.
    private static final long MAX_DEADLINE_AHEAD_MS = 7L * 86_400_000L;

    static final String TENANT_HEADER = "tenant";

    /// Limits of the service, from its configuration.
    record Limits(int maxBytes, int maxTokens, int defaultMaxTokens, boolean tenantRequired) {
        static Limits of(ServiceConfig config) {
            return new Limits(
                    config.integer("intake.max.bytes"),
                    config.integer("intake.max.tokens"),
                    config.integer("intake.default.max.tokens"),
                    config.flag("intake.tenant.required"));
        }
    }

    /// Why a prompt is not served.
    record Refusal(String code, String message) {}

    private final TextEngine engine;
    private final Limits limits;
    private final CacheSalts salts;
    private final Clock clock;

    Intake(TextEngine engine, Limits limits, CacheSalts salts, Clock clock) {
        this.engine = engine;
        this.limits = limits;
        this.salts = salts;
        this.clock = clock;
    }

    /// Whether a text can be a tenant's name.
    static boolean isTenant(String text) {
        return TENANT.matcher(text).matches();
    }

    /// What is wrong with the prompt's names, before any of them is used as a key, or null.
    @Nullable Refusal checkIdentity(Prompt prompt, Source source) {
        if (!ID.matcher(prompt.getRequestId()).matches()) {
            return new Refusal("ID_FORMAT", "request_id: expected 1 to 128 characters of A-Z a-z 0-9 . _ : -, got "
                    + prompt.getRequestId().length() + " characters" + firstBad(prompt.getRequestId()));
        }
        String tenant = prompt.getTenant();
        if (tenant != null && !isTenant(tenant)) {
            return new Refusal("TENANT_FORMAT", "tenant: expected 1 to 64 characters of A-Z a-z 0-9 . _ : -, got "
                    + tenant.length() + " characters" + firstBad(tenant));
        }
        if (tenant == null && limits.tenantRequired()) {
            return new Refusal("TENANT_MISSING", "tenant: expected a value (this service requires one), got none");
        }
        Header header = source.headers().lastHeader(TENANT_HEADER);
        if (header != null && header.value() != null) {
            String claimed = new String(header.value(), StandardCharsets.UTF_8);
            if (!claimed.equals(tenant)) {
                return new Refusal("TENANT_CONFLICT",
                        "tenant: the record's tenant header and its tenant field differ; send the field only, or both equal");
            }
        }
        String session = prompt.getSessionId();
        if (session != null && !ID.matcher(session).matches()) {
            return new Refusal("ID_FORMAT", "session_id: expected 1 to 128 characters of A-Z a-z 0-9 . _ : -, got "
                    + session.length() + " characters" + firstBad(session));
        }
        return null;
    }

    /// What is wrong with the prompt otherwise, or null. Cheap: nothing is tokenized yet.
    @Nullable Refusal checkLimits(Prompt prompt, Source source) {
        int bytes = source.bytes();
        if (bytes > limits.maxBytes()) {
            return new Refusal("PROMPT_TOO_LARGE", "record: expected at most " + limits.maxBytes()
                    + " bytes (intake.max.bytes), got " + bytes);
        }
        int given = (prompt.getMessages() != null ? 1 : 0) + (prompt.getPrompt() != null ? 1 : 0)
                + (prompt.getTokenIds() != null ? 1 : 0);
        if (given != 1) {
            return new Refusal(given == 0 ? "PROMPT_EMPTY" : "PROMPT_AMBIGUOUS",
                    "record: expected exactly one of messages, prompt and token_ids, got " + given);
        }
        String model = prompt.getModel();
        if (model != null && !model.equals(engine.card().name())) {
            return new Refusal("MODEL_UNKNOWN", "model: this service serves \"" + engine.card().name()
                    + "\"; leave the field out or name that one");
        }
        int priority = prompt.getPriority();
        if (priority < -MAX_PRIORITY || priority > MAX_PRIORITY) {
            return new Refusal("PARAM_RANGE", "priority: expected -100 to 100, got " + priority);
        }
        Refusal choice = checkChoices(prompt);
        Refusal metadata = choice != null ? choice : checkMetadata(prompt.getMetadata());
        return metadata != null ? metadata : checkDeadline(prompt.getDeadlineMs(), source.timestampMs());
    }

    private static @Nullable Refusal checkChoices(Prompt prompt) {
        Integer logprobs = prompt.getLogprobs();
        if (logprobs != null && (logprobs < 0 || logprobs > GenerationRequest.MAX_LOGPROBS)) {
            return new Refusal("PARAM_RANGE", "logprobs: expected 0 to " + GenerationRequest.MAX_LOGPROBS + ", got " + logprobs);
        }
        return checkChoice("reasoning_effort", prompt.getReasoningEffort(), "high", "max");
    }

    private static @Nullable Refusal checkChoice(String field, @Nullable String value, String one, String other) {
        return value == null || value.equals(one) || value.equals(other) ? null
                : new Refusal("PARAM_RANGE", "%s: expected %s or %s, got \"%s\"".formatted(
                        field, one, other, presentable(value.length() > SHOWN_CHARS ? value.substring(0, SHOWN_CHARS) : value)));
    }

    static @Nullable Refusal checkMetadata(Map<String, String> metadata) {
        if (metadata.size() > MAX_METADATA) {
            return new Refusal("PARAM_LIMIT", "metadata: expected at most " + MAX_METADATA + " entries, got " + metadata.size());
        }
        for (Map.Entry<String, String> entry : metadata.entrySet()) {
            int longest = Math.max(entry.getKey().length(), entry.getValue().length());
            if (longest > MAX_METADATA_CHARS) {
                return new Refusal("PARAM_LIMIT", "metadata: expected keys and values of at most " + MAX_METADATA_CHARS
                        + " characters, got " + longest);
            }
        }
        return null;
    }

    /// A deadline that passes while the prompt waits is no mistake of who sent it, and is answered as one that passes while
    /// it is computed; see [#hasPassed].
    ///
    /// @param sentMs the record's own time
    private @Nullable Refusal checkDeadline(@Nullable Long deadlineMs, long sentMs) {
        if (deadlineMs == null) {
            return null;
        }
        if (deadlineMs <= sentMs) {
            return new Refusal("DEADLINE",
                    "deadline_ms: expected a time after the record's own (" + sentMs + "), got " + deadlineMs);
        }
        long now = clock.millis();
        if (deadlineMs - now > MAX_DEADLINE_AHEAD_MS) {
            return new Refusal("DEADLINE", "deadline_ms: expected at most 7 days from now (it is " + now
                    + ", in milliseconds since the epoch), got " + deadlineMs);
        }
        return null;
    }

    /// Whether the prompt's deadline is over.
    boolean hasPassed(PreparedPrompt prepared) {
        return prepared.request().deadlineMs() <= clock.millis();
    }

    /// Applies the chat format and tokenizes.
    ///
    /// @throws InvalidRequestException when the engine can never serve it
    PreparedPrompt prepare(Prompt prompt, Source source) {
        millrace.schemas.Sampling wish = prompt.getSampling();
        Sampling sampling = wish == null
                ? new Sampling(0f, 1f, 0, 0f, 1f, source.seed())
                : new Sampling(wish.getTemperature(), wish.getTopP(), wish.getTopK(), wish.getMinP(),
                        wish.getRepetitionPenalty(), wish.getSeed() == null ? source.seed() : wish.getSeed());
        int maxTokens = wish == null || wish.getMaxTokens() == null ? limits.defaultMaxTokens() : wish.getMaxTokens();
        if (maxTokens < 1 || maxTokens > limits.maxTokens()) {
            throw new InvalidRequestException("PARAM_RANGE",
                    "max_tokens: expected 1 to " + limits.maxTokens() + " (intake.max.tokens), got " + maxTokens);
        }
        List<String> stop = wish == null ? List.of() : wish.getStop();
        long deadline = prompt.getDeadlineMs() == null ? Long.MAX_VALUE : prompt.getDeadlineMs();
        return engine.prepare(new GenerationRequest(
                prompt.getRequestId(), input(prompt), sampling, maxTokens, stop, deadline, prompt.getPriority(),
                salts.of(prompt.getTenant()),
                prompt.getLogprobs() == null ? GenerationRequest.NO_LOGPROBS : prompt.getLogprobs(),
                format(prompt)));
    }

    /// What a prompt's answer is held to.
    ///
    /// @throws InvalidRequestException RESPONSE_FORMAT, TOOL_CHOICE
    static ResponseFormat format(Prompt prompt) {
        ResponseFormat form = prompt.getResponseFormat() == null ? ResponseFormat.TEXT : ResponseFormat.parse(prompt.getResponseFormat());
        return ResponseFormat.withTools(form, prompt.getMessages() == null ? null : prompt.getTools(), prompt.getToolChoice());
    }

    static PromptInput input(Prompt prompt) {
        if (prompt.getTokenIds() != null) {
            return new PromptInput.TokenIds(prompt.getTokenIds());
        }
        if (prompt.getPrompt() != null) {
            return new PromptInput.Text(prompt.getPrompt());
        }
        List<ChatMessage> messages = new ArrayList<>();
        for (Message message : prompt.getMessages()) {
            List<ToolCall> calls = new ArrayList<>();
            for (millrace.schemas.ToolCall call : message.getToolCalls()) {
                calls.add(new ToolCall(call.getId(), call.getName(), call.getArguments()));
            }
            messages.add(new ChatMessage(message.getRole(), message.getContent(), message.getReasoningContent(),
                    message.getName(), message.getToolCallId(), calls));
        }
        String tools = TOOLS_NONE.equals(prompt.getToolChoice()) ? null : prompt.getTools();
        return new PromptInput.Messages(
                messages, new ChatOptions(tools, prompt.getThinking(), prompt.getReasoningEffort(), true));
    }

    /// An id that may stand in records and logs in place of one that may not.
    static String presentable(String id) {
        String cut = id.length() > 128 ? id.substring(0, 128) : id;
        return cut.replaceAll("[^A-Za-z0-9._:-]", "?");
    }

    private static String firstBad(String id) {
        for (int i = 0; i < id.length(); i++) {
            char c = id.charAt(i);
            boolean good = c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || "._:-".indexOf(c) >= 0;
            if (!good) {
                return ", with U+%04X at %d".formatted((int) c, i);
            }
        }
        return "";
    }
}
