package millrace.engine.tokenizer;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import millrace.engine.InvalidModelException;
import millrace.engine.weights.ModelFiles;
import org.jspecify.annotations.Nullable;

/// The known chat formats, and how a checkpoint's template is recognised: by words in it, never by running it.
///
/// | markers in the template | and                                                | format             |
/// |-------------------------|----------------------------------------------------|--------------------|
/// | `[gMASK]<sop>`          | `Reasoning Effort`, `enable_thinking`              | `glm-5`            |
/// |                         | `/nothink`                                         | `glm-4.5`          |
/// |                         | `'</think>' if` or `clear_thinking`                | `glm-4.7`          |
/// |                         | ends every prompt with `<|assistant|>{{ '\n' }}`   | `glm-plain`        |
/// | `<|im_middle|>`         | `tools_ts_str`, `You are Kimi`                     | `kimi-k2.5`        |
/// |                         | `tools_ts_str`                                     | `kimi-k2.7`        |
/// |                         | `<think>`                                          | `kimi-k2-thinking` |
/// |                         | `You are Kimi`                                     | `kimi-k2`          |
/// |                         | `You are a helpful assistant`                      | `kimi-k2-early`    |
/// |                         | neither `tool` nor a system text                   | `kimi-plain`       |
/// | `<|im_start|>`          | `enable_thinking`                                  | `qwen3`            |
/// |                         | `You are Qwen, created by Alibaba Cloud`           | `qwen2.5`          |
/// |                         | `You are a helpful assistant`, no `tool`           | `qwen2`            |
/// |                         | neither `tool` nor `<think>`                       | `chatml`           |
/// | `<|start_header_id|>`   | `Cutting Knowledge Date`                           | `llama3.1`         |
/// |                         | no `tool`                                          | `llama3`           |
/// | `<｜Assistant｜>`         | no `think`                                         | `deepseek-v3`      |
///
/// The first line that holds counts. What no line describes has no chat format: it serves texts and token ids only.
public final class ChatFormats {
    /// Raised whenever any format writes anything else than before, or reads an answer otherwise.
    static final int VERSION = 1;

    private static final String JINJA = "chat_template.jinja";
    private static final int MAX_TEMPLATE_BYTES = 1 << 20;

    private static final List<ChatFormat> ALL = all();

    private ChatFormats() {}

    private static List<ChatFormat> all() {
        List<ChatFormat> all = new ArrayList<>();
        all.addAll(List.of(GlmFormat.values()));
        all.addAll(List.of(KimiFormat.values()));
        all.addAll(List.of(ChatMlFormat.values()));
        all.addAll(List.of(Llama3Format.values()));
        all.addAll(List.of(DeepSeekFormat.values()));
        return List.copyOf(all);
    }

    /// The ids of all formats.
    public static List<String> ids() {
        return ALL.stream().map(ChatFormat::id).toList();
    }

    /// The format of an id.
    ///
    /// @throws InvalidModelException TPL_UNKNOWN
    public static ChatFormat byId(String id) {
        return ALL.stream()
                .filter(format -> format.id().equals(id))
                .findFirst()
                .orElseThrow(() -> new InvalidModelException(
                        "TPL_UNKNOWN",
                        "chatFormat: expected one of %s, got \"%s\"".formatted(String.join(", ", ids()), id)));
    }

    /// The format of a model that has none: it refuses conversations.
    ///
    /// @param reason what was found instead of a known template
    public static ChatFormat none(String reason) {
        return new NoChatFormat(reason);
    }

    /// The chat format of a checkpoint, see [#detect(String, TokenizerFiles, Tokenizer)].
    public static ChatFormat detect(@Nullable String chosen, ModelFiles files, Tokenizer tokenizer) {
        return detect(chosen, (TokenizerFiles) files::readIfPresent, tokenizer);
    }

    /// The chat format of a checkpoint.
    ///
    /// @param chosen id of the format to take whatever the template says, or null
    /// @return a format whose markers the tokenizer has, or one with the id `none` that refuses conversations
    /// @throws InvalidModelException TPL_UNKNOWN for an unknown id, TPL_TOKEN_MISSING if the tokenizer lacks a marker
    public static ChatFormat detect(@Nullable String chosen, TokenizerFiles files, Tokenizer tokenizer) {
        ChatFormat format = chosen != null ? byId(chosen) : recognise(template(files));
        for (String marker : format.markers()) {
            if (tokenizer.special(marker) == null) {
                throw new InvalidModelException("TPL_TOKEN_MISSING", PromptWriter.missing(format.id(), marker));
            }
        }
        return format;
    }

    /// The template's text: a file of its own, else an entry of tokenizer_config.json; null if there is none.
    private static @Nullable String template(TokenizerFiles files) {
        byte[] jinja = files.readIfPresent(JINJA);
        if (jinja != null) {
            if (jinja.length > MAX_TEMPLATE_BYTES) {
                throw new InvalidModelException(
                        "TPL_LIMIT",
                        "%s: size: expected at most %d bytes, got %d"
                                .formatted(JINJA, MAX_TEMPLATE_BYTES, jinja.length));
            }
            return new String(jinja, StandardCharsets.UTF_8);
        }
        return TokenizerConfig.read(files.readIfPresent(TokenizerConfig.FILE)).chatTemplate();
    }

    static ChatFormat recognise(@Nullable String template) {
        if (template == null) {
            return new NoChatFormat("a checkpoint without a chat template");
        }
        ChatFormat format = null;
        if (template.contains("[gMASK]") && template.contains("<sop>")) {
            format = glm(template);
        } else if (template.contains("<|im_middle|>")) {
            format = kimi(template);
        } else if (template.contains("<|im_start|>")) {
            format = chatMl(template);
        } else if (template.contains("<|start_header_id|>")) {
            format = llama(template);
        } else if (template.contains(DeepSeekFormat.ASSISTANT) && !template.contains("think")) {
            format = DeepSeekFormat.V3;
        }
        String digest = Hashes.sha256(template).substring(0, 16);
        return format != null ? format : new NoChatFormat("an unknown chat template (SHA-256 " + digest + "…)");
    }

    private static @Nullable ChatFormat glm(String template) {
        if (template.contains("Reasoning Effort")) {
            return template.contains("enable_thinking") ? GlmFormat.GLM_5 : null;
        }
        if (template.contains("/nothink")) {
            return GlmFormat.GLM_4_5;
        }
        if (template.contains("'</think>' if") || template.contains("clear_thinking")) {
            return GlmFormat.GLM_4_7;
        }
        return template.contains("<|assistant|>{{ '\\n' }}") ? GlmFormat.PLAIN : null;
    }

    private static @Nullable ChatFormat kimi(String template) {
        boolean kimi = template.contains("You are Kimi");
        if (template.contains("tools_ts_str")) {
            return kimi ? KimiFormat.K2_5 : KimiFormat.K2_7;
        }
        if (template.contains("<think>")) {
            return KimiFormat.K2_THINKING;
        }
        if (kimi) {
            return KimiFormat.K2;
        }
        if (template.contains("You are a helpful assistant")) {
            return KimiFormat.K2_EARLY;
        }
        return template.contains("tool") || template.contains("You are") ? null : KimiFormat.PLAIN;
    }

    private static @Nullable ChatFormat chatMl(String template) {
        if (template.contains("enable_thinking")) {
            return ChatMlFormat.QWEN_3;
        }
        if (template.contains("You are Qwen, created by Alibaba Cloud")) {
            return ChatMlFormat.QWEN_2_5;
        }
        if (template.contains("tool") || template.contains("<think>")) {
            return null;
        }
        return template.contains("You are a helpful assistant") ? ChatMlFormat.QWEN_2 : ChatMlFormat.CHATML;
    }

    private static @Nullable ChatFormat llama(String template) {
        if (template.contains("Cutting Knowledge Date")) {
            return Llama3Format.LLAMA_3_1;
        }
        return template.contains("tool") ? null : Llama3Format.LLAMA_3;
    }
}
