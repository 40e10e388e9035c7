package millrace.streams.cli;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import millrace.engine.ChatMessage;
import millrace.engine.ChatOptions;
import millrace.engine.GenerationRequest;
import millrace.engine.InvalidRequestException;
import millrace.engine.PromptInput;
import millrace.engine.ResponseFormat;
import millrace.engine.Sampling;
import millrace.engine.ToolCall;
import org.jspecify.annotations.Nullable;

/// JSON lines to requests, with the field names that chat-completion users know.
///
/// | field | |
/// |---|---|
/// | `messages`, `prompt` or `ids` | exactly one: a conversation, a text as it stands, or token ids |
/// | `tools`, `tool_choice`, `thinking` (`enable_thinking`), `reasoning_effort`, `add_generation_prompt` | with `messages` |
/// | `max_tokens` | default 64 |
/// | `temperature`, `top_p`, `top_k`, `min_p`, `repetition_penalty`, `seed` | default greedy |
/// | `stop` | a string or an array of strings |
/// | `logprobs` | how many of the most likely tokens are listed beside each; default no log probabilities |
/// | `response_format` | an object, or its text |
final class RequestLines {
    static final int DEFAULT_MAX_TOKENS = 64;
    private static final Set<String> KNOWN = Set.of(
            "id", "messages", "prompt", "ids", "tools", "thinking", "enable_thinking", "reasoning_effort",
            "add_generation_prompt", "max_tokens", "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed",
            "stop", "tool_choice", "logprobs", "response_format");

    private RequestLines() {}

    static GenerationRequest request(JsonLines.Line line) {
        Sampling greedy = Sampling.GREEDY;
        var sampling = new Sampling(
                line.number("temperature", greedy.temperature()),
                line.number("top_p", greedy.topP()),
                line.integer("top_k", greedy.topK()),
                line.number("min_p", greedy.minP()),
                line.number("repetition_penalty", greedy.repetitionPenalty()),
                line.longInteger("seed", greedy.seed()));
        return new GenerationRequest(
                line.where(),
                input(line),
                sampling,
                line.integer("max_tokens", DEFAULT_MAX_TOKENS),
                stop(line),
                Long.MAX_VALUE,
                0,
                "",
                logprobs(line),
                format(line));
    }

    private static int logprobs(JsonLines.Line line) {
        int logprobs = line.integer("logprobs", GenerationRequest.NO_LOGPROBS);
        if (line.value("logprobs") != null && (logprobs < 0 || logprobs > GenerationRequest.MAX_LOGPROBS)) {
            throw line.problem("logprobs: expected 0 to " + GenerationRequest.MAX_LOGPROBS + ", got " + logprobs);
        }
        return logprobs;
    }

    private static ResponseFormat format(JsonLines.Line line) {
        JsonNode format = line.value("response_format");
        try {
            ResponseFormat form = format == null ? ResponseFormat.TEXT
                    : ResponseFormat.parse(format.isTextual() ? format.textValue() : format.toString());
            JsonNode tools = line.value("messages") == null ? null : line.value("tools");
            return ResponseFormat.withTools(form, tools == null || tools.isEmpty() ? null : tools.toString(), choice(line));
        } catch (InvalidRequestException e) {
            throw line.problem(String.valueOf(e.getMessage()));
        }
    }

    /// The choice of a tool as text: a word, or an object's text.
    private static @Nullable String choice(JsonLines.Line line) {
        JsonNode choice = line.value("tool_choice");
        return choice == null ? null : choice.isTextual() ? choice.textValue() : choice.toString();
    }

    /// Fields of the line that have no meaning here.
    static List<String> unknown(JsonLines.Line line) {
        List<String> unknown = new ArrayList<>();
        line.json().fieldNames().forEachRemaining(name -> {
            if (!KNOWN.contains(name)) {
                unknown.add(name);
            }
        });
        return unknown;
    }

    private static PromptInput input(JsonLines.Line line) {
        JsonNode messages = line.value("messages");
        String prompt = line.text("prompt");
        List<Integer> ids = line.ids("ids");
        int given = (messages == null ? 0 : 1) + (prompt == null ? 0 : 1) + (ids == null ? 0 : 1);
        if (given != 1) {
            throw line.problem("expected exactly one of messages, prompt and ids, got " + given + " of them");
        }
        if (prompt != null) {
            return new PromptInput.Text(prompt);
        }
        return ids != null ? new PromptInput.TokenIds(ids) : new PromptInput.Messages(messages(line), options(line));
    }

    static ChatOptions options(JsonLines.Line line) {
        JsonNode tools = line.value("tools");
        if (tools != null && !tools.isArray()) {
            throw line.wrong("tools", "an array", tools);
        }
        Boolean thinking = line.flag("thinking");
        Boolean generate = line.flag("add_generation_prompt");
        String choice = choice(line);
        return new ChatOptions(
                tools == null || tools.isEmpty() || "none".equals(choice) ? null : tools.toString(),
                thinking == null ? line.flag("enable_thinking") : thinking,
                line.text("reasoning_effort"),
                generate == null || generate);
    }

    static List<ChatMessage> messages(JsonLines.Line line) {
        JsonNode messages = line.value("messages");
        if (messages == null || !messages.isArray()) {
            throw line.problem("messages: expected an array of messages, got "
                    + (messages == null ? "nothing" : JsonLines.kind(messages)));
        }
        List<ChatMessage> all = new ArrayList<>();
        for (JsonNode message : messages) {
            if (!message.isObject()) {
                throw line.wrong("messages", "objects with role and content", message);
            }
            all.add(message(new JsonLines.Line(line.where() + ": message " + all.size(), message)));
        }
        return all;
    }

    private static ChatMessage message(JsonLines.Line message) {
        String role = message.text("role");
        if (role == null) {
            throw message.problem("role: expected a string, got nothing");
        }
        return new ChatMessage(
                role,
                content(message),
                message.text("reasoning_content"),
                message.text("name"),
                message.text("tool_call_id"),
                toolCalls(message));
    }

    /// A string, or parts of type `text`, which are joined.
    private static String content(JsonLines.Line message) {
        JsonNode content = message.value("content");
        if (content == null) {
            return "";
        }
        if (content.isTextual()) {
            return content.textValue();
        }
        StringBuilder text = new StringBuilder();
        for (JsonNode part : content) {
            if (!part.path("type").asText().equals("text") || !part.path("text").isTextual()) {
                throw message.problem("content: expected a string or parts of type text, got another part");
            }
            text.append(part.get("text").textValue());
        }
        if (!content.isArray()) {
            throw message.wrong("content", "a string or an array of parts", content);
        }
        return text.toString();
    }

    private static List<ToolCall> toolCalls(JsonLines.Line message) {
        JsonNode calls = message.value("tool_calls");
        if (calls == null) {
            return List.of();
        }
        if (!calls.isArray()) {
            throw message.wrong("tool_calls", "an array", calls);
        }
        List<ToolCall> all = new ArrayList<>();
        for (JsonNode call : calls) {
            JsonNode function = call.has("function") ? call.get("function") : call;
            JsonNode arguments = function.path("arguments");
            if (!function.path("name").isTextual() || !arguments.isTextual() && !arguments.isObject()) {
                throw message.problem(
                        "tool_calls: call " + all.size() + ": expected a function with name and arguments, got less");
            }
            all.add(new ToolCall(
                    call.path("id").asText(""),
                    function.get("name").textValue(),
                    arguments.isTextual() ? arguments.textValue() : arguments.toString()));
        }
        return all;
    }

    private static List<String> stop(JsonLines.Line line) {
        @Nullable JsonNode stop = line.value("stop");
        if (stop == null) {
            return List.of();
        }
        if (stop.isTextual()) {
            return List.of(stop.textValue());
        }
        if (!stop.isArray()) {
            throw line.wrong("stop", "a string or an array of strings", stop);
        }
        List<String> all = new ArrayList<>();
        for (JsonNode one : stop) {
            if (!one.isTextual()) {
                throw line.wrong("stop", "strings", one);
            }
            all.add(one.textValue());
        }
        return all;
    }
}
