package millrace.streams.openai;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import millrace.schemas.Message;
import millrace.schemas.Sampling;
import org.jspecify.annotations.Nullable;

/// Reads the bodies of requests, strictly: a field is honoured or refused by its name, never passed over.
///
/// Where the interface has a default and the field is absent, that default holds: temperature 1, top_p 1, one answer.
/// Without a limit of tokens that of the service holds.
public final class Bodies {
    /// The most answers to one request.
    public static final int MAX_N = 16;
    private static final int MAX_TOP_LOGPROBS = 20;
    private static final int MAX_STOPS = 16;
    private static final int MAX_STOP_CHARS = 256;
    private static final int MAX_METADATA = 31;
    private static final int MAX_METADATA_CHARS = 512;
    private static final int MAX_PRIORITY = 100;
    private static final Pattern ID = Pattern.compile("[A-Za-z0-9._:-]{1,128}");
    private static final Set<String> TIERS = Set.of("auto", "default");

    /// Fields that only conversations have.
    private record Chat(
            @Nullable String tools,
            @Nullable String toolChoice,
            @Nullable Boolean thinking,
            @Nullable String reasoningEffort,
            @Nullable String responseFormat,
            @Nullable Integer logprobs) {
        static final Chat NONE = new Chat(null, null, null, null, null, null);
    }

    private Bodies() {}

    /// The body of `/v1/chat/completions`.
    ///
    /// @throws ApiException 400, naming the field
    public static InferenceRequest chat(ObjectNode json) {
        Fields body = new Fields(json, "");
        List<Message> messages = Messages.read(body.array("messages"));
        Chat chat = new Chat(
                Messages.tools(body), toolChoice(body), thinking(body), effort(body), responseFormat(body), chatLogprobs(body));
        boolean named = chat.toolChoice() != null && chat.toolChoice().startsWith("{");
        if (Boolean.FALSE.equals(body.flag("parallel_tool_calls")) && !named) {
            throw ApiException.unsupported("parallel_tool_calls", "the number of calls is the model's choice, unless tool_choice names a function");
        }
        body.refuse("functions", "it was replaced by tools");
        body.refuse("function_call", "it was replaced by tool_choice");
        body.refuse("audio", "answers are text");
        body.refuse("prediction", "tokens are not predicted by the client");
        body.refuse("web_search_options", "the service reaches no network");
        body.refuse("verbosity", "the models served here have no such setting");
        modalities(body);
        if (chat.toolChoice() != null && chat.tools() == null && !chat.toolChoice().equals("none")) {
            throw ApiException.wrongValue("tool_choice", "expected tools beside it, got none");
        }
        return finish(body, messages, null, null, chat);
    }

    /// The body of `/v1/completions`.
    ///
    /// @throws ApiException 400, naming the field
    public static InferenceRequest text(ObjectNode json) {
        Fields body = new Fields(json, "");
        JsonNode prompt = body.value("prompt");
        if (prompt == null) {
            throw ApiException.missing("prompt", "a string or an array of token ids");
        }
        String text = prompt.isTextual() ? prompt.textValue() : null;
        List<Integer> ids = null;
        if (text == null) {
            if (!prompt.isArray()) {
                throw ApiException.wrongType("prompt", "a string or an array of token ids", Json.kind(prompt));
            }
            if (prompt.size() == 1 && prompt.get(0).isTextual()) {
                text = prompt.get(0).textValue();
            } else {
                ids = ids(prompt);
            }
        }
        body.refuse("suffix", "the models served here write forwards only");
        body.refuse("logprobs", "ask /v1/chat/completions for them");
        if (Boolean.TRUE.equals(body.flag("echo"))) {
            throw ApiException.unsupported("echo", "the prompt is not given back");
        }
        Integer bestOf = body.integer("best_of", 1, MAX_N);
        InferenceRequest request = finish(body, null, text, ids, Chat.NONE);
        if (bestOf != null && bestOf != request.n()) {
            throw ApiException.unsupported("best_of", "every answer is given back");
        }
        return request;
    }

    private static List<Integer> ids(JsonNode prompt) {
        List<Integer> ids = new ArrayList<>(prompt.size());
        for (int i = 0; i < prompt.size(); i++) {
            JsonNode id = prompt.get(i);
            if (!id.isIntegralNumber() || !id.canConvertToInt()) {
                throw ApiException.wrongType("prompt[" + i + "]", "a token id (one prompt a request; send several as several requests)",
                        Json.kind(id));
            }
            ids.add(id.intValue());
        }
        return ids;
    }

    /// What both have.
    private static InferenceRequest finish(
            Fields body, @Nullable List<Message> messages, @Nullable String text, @Nullable List<Integer> ids, Chat chat) {
        refuseNonZero(body, "frequency_penalty", "the sampler has repetition_penalty instead");
        refuseNonZero(body, "presence_penalty", "the sampler has repetition_penalty instead");
        ObjectNode bias = body.object("logit_bias");
        if (bias != null && !bias.isEmpty()) {
            throw ApiException.unsupported("logit_bias", "logits are used as the model gives them");
        }
        if (Boolean.TRUE.equals(body.flag("store"))) {
            throw ApiException.unsupported("store", "answers stay in their topic, they cannot be fetched again here");
        }
        String tier = body.text("service_tier");
        if (tier != null && !TIERS.contains(tier)) {
            throw ApiException.invalid("unsupported_value", "service_tier", "service_tier: expected auto or default, got \""
                    + Fields.cut(tier) + "\"; millrace.priority ranks requests");
        }
        boolean stream = Boolean.TRUE.equals(body.flag("stream"));
        boolean usage = usage(body, stream);
        String model = body.text("model");
        int n = or(body.integer("n", 1, MAX_N), 1);
        Sampling sampling = sampling(body);
        Map<String, String> metadata = metadata(body);
        Fields own = body.fields("millrace");
        Integer priority = own == null ? null : own.integer("priority", -MAX_PRIORITY, MAX_PRIORITY);
        Long deadline = own == null ? null : own.longInteger("deadline_ms", 1, Long.MAX_VALUE);
        String session = session(body, own);
        boolean returnIds = own != null && Boolean.TRUE.equals(own.flag("return_token_ids"));
        if (own != null) {
            own.refuseTheRest();
        }
        body.refuseTheRest();
        return new InferenceRequest(model, messages, text, ids, chat.tools(), chat.toolChoice(), chat.thinking(), chat.reasoningEffort(),
                chat.responseFormat(), sampling, n, chat.logprobs(), or(priority, 0), session, deadline, returnIds, metadata, stream, usage);
    }

    private static int or(@Nullable Integer value, int missing) {
        return value == null ? missing : value;
    }

    private static Sampling sampling(Fields body) {
        float topP = body.number("top_p", 0, 1, 1f);
        if (topP <= 0) {
            throw ApiException.wrongValue("top_p", "expected above 0 to 1, got 0; temperature 0 takes the most likely token");
        }
        float penalty = body.number("repetition_penalty", 0, 10, 1f);
        if (penalty <= 0) {
            throw ApiException.wrongValue("repetition_penalty", "expected above 0 to 10, got 0; 1 is off");
        }
        Integer tokens = body.integer("max_tokens", 1, Integer.MAX_VALUE);
        Integer completionTokens = body.integer("max_completion_tokens", 1, Integer.MAX_VALUE);
        if (tokens != null && completionTokens != null && !tokens.equals(completionTokens)) {
            throw ApiException.wrongValue("max_tokens", "expected it or max_completion_tokens, got both with different values");
        }
        return Sampling.newBuilder()
                .setTemperature(body.number("temperature", 0, 2, 1f))
                .setTopP(topP)
                .setTopK(or(body.integer("top_k", 0, Integer.MAX_VALUE), 0))
                .setMinP(body.number("min_p", 0, 1, 0f))
                .setRepetitionPenalty(penalty)
                .setSeed(body.longInteger("seed", Long.MIN_VALUE, Long.MAX_VALUE))
                .setMaxTokens(tokens == null ? completionTokens : tokens)
                .setStop(stop(body))
                .build();
    }

    private static List<String> stop(Fields body) {
        JsonNode stop = body.value("stop");
        if (stop == null) {
            return List.of();
        }
        if (!stop.isTextual() && !stop.isArray()) {
            throw ApiException.wrongType("stop", "a string or an array of strings", Json.kind(stop));
        }
        List<String> all = new ArrayList<>();
        int count = stop.isTextual() ? 1 : stop.size();
        if (count > MAX_STOPS) {
            throw ApiException.wrongValue("stop", "expected at most " + MAX_STOPS + " strings, got " + count);
        }
        for (int i = 0; i < count; i++) {
            JsonNode one = stop.isTextual() ? stop : stop.get(i);
            String path = stop.isTextual() ? "stop" : "stop[" + i + "]";
            if (!one.isTextual()) {
                throw ApiException.wrongType(path, "a string", Json.kind(one));
            }
            String text = one.textValue();
            if (text.isEmpty() || text.length() > MAX_STOP_CHARS) {
                throw ApiException.wrongValue(path, "expected 1 to " + MAX_STOP_CHARS + " characters, got " + text.length());
            }
            all.add(text);
        }
        return all;
    }

    private static void refuseNonZero(Fields body, String name, String why) {
        if (body.number(name, -2, 2, 0f) != 0f) {
            throw ApiException.unsupported(name, why);
        }
    }

    private static void modalities(Fields body) {
        ArrayNode modalities = body.array("modalities");
        if (modalities != null && !(modalities.size() == 1 && modalities.get(0).asText().equals("text"))) {
            throw ApiException.invalid("unsupported_value", "modalities", "modalities: expected [\"text\"], got others; answers are text");
        }
    }

    private static @Nullable String toolChoice(Fields body) {
        JsonNode choice = body.value("tool_choice");
        if (choice == null) {
            return null;
        }
        if (choice.isTextual() && Set.of("auto", "none", "required").contains(choice.textValue())) {
            return choice.textValue();
        }
        if (choice.isObject()) {
            Fields named = Fields.of(choice, "tool_choice");
            Messages.requireFunction(named);
            Fields function = Messages.requiredFunction(named);
            function.requiredText("name");
            function.refuseTheRest();
            named.refuseTheRest();
            return Json.write(choice);
        }
        throw ApiException.invalid("unsupported_value", "tool_choice", "tool_choice: expected auto, none, required or a function, got "
                + Fields.cut(choice.isTextual() ? choice.textValue() : "something else"));
    }

    /// `thinking` as a flag or in the form of the model makers, or what a chat template would be given.
    private static @Nullable Boolean thinking(Fields body) {
        Boolean thinking = null;
        JsonNode own = body.value("thinking");
        if (own != null && own.isObject()) {
            Fields form = Fields.of(own, "thinking");
            String type = form.requiredText("type");
            if (!type.equals("enabled") && !type.equals("disabled")) {
                throw ApiException.wrongValue("thinking.type", "expected enabled or disabled, got \"" + Fields.cut(type) + "\"");
            }
            form.refuseTheRest();
            thinking = type.equals("enabled");
        } else if (own != null) {
            thinking = body.flag("thinking");
        }
        Fields template = body.fields("chat_template_kwargs");
        if (template != null) {
            Boolean enabled = template.flag("enable_thinking");
            template.refuseTheRest();
            if (thinking != null && enabled != null && !thinking.equals(enabled)) {
                throw ApiException.wrongValue("chat_template_kwargs.enable_thinking", "expected it or thinking, got both and they differ");
            }
            thinking = enabled == null ? thinking : enabled;
        }
        if ("none".equals(body.text("reasoning_effort"))) {
            if (Boolean.TRUE.equals(thinking)) {
                throw ApiException.wrongValue("reasoning_effort", "expected an effort beside thinking, got none");
            }
            thinking = false;
        }
        return thinking;
    }

    private static @Nullable String effort(Fields body) {
        String effort = body.text("reasoning_effort");
        if (effort == null || effort.equals("none")) {
            return null;
        }
        if (effort.equals("high") || effort.equals("max")) {
            return effort;
        }
        throw ApiException.invalid("unsupported_value", "reasoning_effort", "reasoning_effort: expected none, high or max, got \""
                + Fields.cut(effort) + "\"; the chat formats know no other");
    }

    private static @Nullable String responseFormat(Fields body) {
        Fields format = body.fields("response_format");
        if (format == null) {
            return null;
        }
        String type = format.requiredText("type");
        switch (type) {
            case "text", "json_object" -> { }
            case "json_schema" -> {
                Fields schema = format.fields("json_schema");
                if (schema == null) {
                    throw ApiException.missing("response_format.json_schema", "an object");
                }
                schema.requiredText("name");
                schema.text("description");
                schema.flag("strict");
                if (schema.object("schema") == null) {
                    throw ApiException.missing("response_format.json_schema.schema", "a JSON schema");
                }
                schema.refuseTheRest();
            }
            default -> throw ApiException.invalid("unsupported_value", "response_format.type",
                    "response_format.type: expected text, json_object or json_schema, got \"" + Fields.cut(type) + "\"");
        }
        format.refuseTheRest();
        ObjectNode whole = body.object("response_format");
        return whole == null ? null : Json.write(whole);
    }

    private static @Nullable Integer chatLogprobs(Fields body) {
        boolean wanted = Boolean.TRUE.equals(body.flag("logprobs"));
        Integer top = body.integer("top_logprobs", 0, MAX_TOP_LOGPROBS);
        if (top != null && !wanted) {
            throw ApiException.wrongValue("top_logprobs", "expected logprobs true beside it, got none");
        }
        return wanted ? Integer.valueOf(or(top, 0)) : null;
    }

    private static boolean usage(Fields body, boolean stream) {
        Fields options = body.fields("stream_options");
        if (options == null) {
            return false;
        }
        if (!stream) {
            throw ApiException.wrongValue("stream_options", "expected stream true beside it, got none");
        }
        boolean usage = Boolean.TRUE.equals(options.flag("include_usage"));
        if (Boolean.TRUE.equals(options.flag("include_obfuscation"))) {
            throw ApiException.unsupported("stream_options.include_obfuscation", "events are not padded");
        }
        options.refuseTheRest();
        return usage;
    }

    /// The metadata, and who the user is, if the client says so.
    private static Map<String, String> metadata(Fields body) {
        Map<String, String> all = new LinkedHashMap<>();
        ObjectNode metadata = body.object("metadata");
        if (metadata != null) {
            if (metadata.size() > MAX_METADATA) {
                throw ApiException.wrongValue("metadata", "expected at most " + MAX_METADATA + " entries, got " + metadata.size());
            }
            for (Map.Entry<String, JsonNode> entry : metadata.properties()) {
                String path = "metadata." + Fields.cut(entry.getKey());
                if (!entry.getValue().isTextual()) {
                    throw ApiException.wrongType(path, "a string", Json.kind(entry.getValue()));
                }
                all.put(short512(path, entry.getKey()), short512(path, entry.getValue().textValue()));
            }
        }
        String user = body.text("user");
        String safety = body.text("safety_identifier");
        if (user != null || safety != null) {
            all.put("user", short512("user", String.valueOf(safety == null ? user : safety)));
        }
        return all;
    }

    private static String short512(String path, String text) {
        if (text.length() > MAX_METADATA_CHARS) {
            throw ApiException.wrongValue(path, "expected at most " + MAX_METADATA_CHARS + " characters, got " + text.length());
        }
        return text;
    }

    /// Requests of one session meet their cache. `prompt_cache_key` says the same, in any characters.
    private static @Nullable String session(Fields body, @Nullable Fields own) {
        String session = own == null ? null : own.text("session_id");
        if (session != null && !ID.matcher(session).matches()) {
            throw ApiException.wrongValue("millrace.session_id", "expected 1 to 128 characters of A-Z a-z 0-9 . _ : -");
        }
        String key = body.text("prompt_cache_key");
        if (session != null || key == null || key.isEmpty()) {
            return session;
        }
        return ID.matcher(key).matches() ? key : sha256(key);
    }

    private static String sha256(String text) {
        try {
            return HexFormat.of().formatHex(
                    MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8)), 0, 16);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every JDK has SHA-256", e);
        }
    }
}
