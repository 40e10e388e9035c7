package millrace.engine.tokenizer;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import millrace.engine.InvalidModelException;
import org.jspecify.annotations.Nullable;

/// What tokenizer_config.json says about tokens and the chat template.
///
/// @param addedTokens `added_tokens_decoder`, by id
/// @param eosTokens text of `eos_token`; none if the file has none
/// @param chatTemplate `chat_template`, or null
record TokenizerConfig(
        Map<Integer, AddedToken> addedTokens,
        Set<String> eosTokens,
        @Nullable String chatTemplate) {
    static final String FILE = "tokenizer_config.json";

    static TokenizerConfig read(byte @Nullable [] bytes) {
        if (bytes == null) {
            return new TokenizerConfig(Map.of(), Set.of(), null);
        }
        JsonNode root = Json.tree(FILE, bytes);
        Map<Integer, AddedToken> added = new LinkedHashMap<>();
        for (Map.Entry<String, JsonNode> entry :
                root.path("added_tokens_decoder").properties()) {
            JsonNode id;
            try {
                id = JsonNodeFactory.instance.numberNode(Long.parseLong(entry.getKey()));
            } catch (NumberFormatException e) {
                throw invalid(FILE, "added_tokens_decoder", "ids as keys", entry.getKey());
            }
            AddedToken token = addedToken(FILE, id, entry.getValue());
            added.put(token.id(), token);
        }
        Set<String> eos = new LinkedHashSet<>();
        JsonNode eosToken = root.path("eos_token");
        eosToken = eosToken.isObject() ? eosToken.path("content") : eosToken;
        if (eosToken.isTextual() && Utf8.loneSurrogate(eosToken.asText()) < 0) {
            eos.add(eosToken.asText());
        }
        return new TokenizerConfig(added, eos, template(root.path("chat_template")));
    }

    /// A string, or a list of named templates, of which the default counts.
    private static @Nullable String template(JsonNode node) {
        for (JsonNode named : node) {
            if (named.path("name").asText().equals("default")) {
                return named.path("template").asText();
            }
        }
        return node.isTextual() ? node.asText() : null;
    }

    static AddedToken addedToken(String file, JsonNode id, JsonNode node) {
        JsonNode content = node.path("content");
        if (!content.isTextual() || content.asText().isEmpty()) {
            throw invalid(file, "added token " + id, "a text as content", content.toString());
        }
        if (Utf8.loneSurrogate(content.asText()) >= 0) {
            throw invalid(file, "added token " + id, "well-formed Unicode", "a lone surrogate");
        }
        if (!id.isIntegralNumber()) {
            throw invalid(file, "added token \"" + content.asText() + "\"", "an integer as id", id.toString());
        }
        return new AddedToken(
                Vocabulary.requireId(file, content.asText(), id.canConvertToLong() ? id.asLong() : -1),
                content.asText(),
                node.path("special").asBoolean(false),
                node.path("single_word").asBoolean(false),
                node.path("lstrip").asBoolean(false),
                node.path("rstrip").asBoolean(false),
                node.path("normalized").asBoolean(false));
    }

    private static InvalidModelException invalid(String file, String what, String expected, String got) {
        return new InvalidModelException(
                "TOK_INVALID",
                "%s: %s: expected %s, got %s".formatted(file, what, expected, got.isEmpty() ? "none" : got));
    }
}
