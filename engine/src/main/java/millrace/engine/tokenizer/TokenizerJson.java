package millrace.engine.tokenizer;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.MissingNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import millrace.engine.InvalidModelException;

/// Reads tokenizer.json of Hugging Face: byte-level BPE only, everything else is refused by name.
final class TokenizerJson {
    static final String FILE = "tokenizer.json";
    private static final int MAX_ADDED = 1 << 16;
    private static final int MAX_ADDED_LENGTH = 1024;
    private static final int MAX_MERGES = 1 << 21;

    private final Map<String, Integer> vocab = new HashMap<>();
    private final List<String> mergeLefts = new ArrayList<>();
    private final List<String> mergeRights = new ArrayList<>();
    private final Map<String, JsonNode> modelSettings = new HashMap<>();
    private final Map<String, JsonNode> settings = new HashMap<>();

    private TokenizerJson() {}

    static BpeTokenizer read(byte[] bytes, TokenizerConfig config) {
        TokenizerJson file = new TokenizerJson();
        Json.read(FILE, bytes, parser -> {
            file.document(parser);
            return file;
        });
        return file.build(Hashes.sha256(bytes), config);
    }

    private void document(JsonParser parser) throws IOException {
        Json.requireObject(FILE, "document", parser.nextToken());
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
            String name = parser.currentName();
            JsonToken token = parser.nextToken();
            if (name.equals("model")) {
                Json.requireObject(FILE, "model", token);
                model(parser);
            } else {
                settings.put(name, Json.tree(parser));
            }
        }
    }

    private void model(JsonParser parser) throws IOException {
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
            String name = parser.currentName();
            JsonToken token = parser.nextToken();
            switch (name) {
                case "vocab" -> {
                    Json.requireObject(FILE, "model.vocab", token);
                    vocab(parser);
                }
                case "merges" -> {
                    Json.require(FILE, "model.merges", JsonToken.START_ARRAY, token);
                    merges(parser);
                }
                default -> modelSettings.put(name, Json.tree(parser));
            }
        }
    }

    private void vocab(JsonParser parser) throws IOException {
        while (parser.nextToken() == JsonToken.FIELD_NAME) {
            String token = parser.currentName();
            Json.require(FILE, "model.vocab \"" + token + "\"", JsonToken.VALUE_NUMBER_INT, parser.nextToken());
            long id = parser.getNumberType() == JsonParser.NumberType.BIG_INTEGER ? -1 : parser.getLongValue();
            vocab.put(token, Vocabulary.requireId(FILE, token, id));
            limit("model.vocab", Vocabulary.MAX_IDS, vocab.size());
        }
    }

    private void merges(JsonParser parser) throws IOException {
        while (parser.nextToken() != JsonToken.END_ARRAY) {
            String what = "model.merges[" + mergeRights.size() + "]";
            if (parser.currentToken() == JsonToken.START_ARRAY) {
                mergeLefts.add(mergeSide(what, parser));
                mergeRights.add(mergeSide(what, parser));
                Json.require(FILE, what, JsonToken.END_ARRAY, parser.nextToken());
            } else {
                Json.require(FILE, what, JsonToken.VALUE_STRING, parser.currentToken());
                String merge = parser.getText();
                int space = merge.indexOf(' ');
                if (space <= 0 || space != merge.lastIndexOf(' ') || space == merge.length() - 1) {
                    throw invalid("%s: expected two tokens and a space between, got \"%s\"".formatted(what, merge));
                }
                mergeLefts.add(merge.substring(0, space));
                mergeRights.add(merge.substring(space + 1));
            }
            limit("model.merges", MAX_MERGES, mergeLefts.size());
        }
    }

    private static String mergeSide(String what, JsonParser parser) throws IOException {
        Json.require(FILE, what, JsonToken.VALUE_STRING, parser.nextToken());
        return parser.getText();
    }

    private BpeTokenizer build(String digest, TokenizerConfig config) {
        checkModel();
        Map<Integer, AddedToken> added = addedTokens(config);
        Map<String, Integer> reachable = new HashMap<>();
        Map<Integer, byte[]> unreachable = new HashMap<>();
        vocab.forEach((token, id) -> {
            AddedToken sameId = added.get(id);
            if (sameId != null && !sameId.content().equals(token)) {
                throw invalid("added token \"%s\": expected an id of its own, got %d, which is \"%s\""
                        .formatted(sameId.content(), id, token));
            }
            if (sameId != null) {
                return; // no text may merge into an added token
            }
            String bytes = ByteLevel.bytes(token);
            if (bytes != null) {
                if (reachable.put(bytes, id) != null) {
                    throw invalid("vocabulary: expected every byte sequence once, got \"%s\" twice".formatted(token));
                }
            } else {
                unreachable.put(id, Utf8.encode(token));
            }
        });
        Vocabulary vocabulary = new Vocabulary(FILE, reachable, unreachable);
        return new BpeTokenizer(new BpeTokenizer.Parts(
                FILE,
                digest,
                vocabulary,
                mergeTable(added),
                modelSettings
                        .getOrDefault("ignore_merges", MissingNode.getInstance())
                        .asBoolean(false),
                PreTokenizerReader.nfc(settings.get("normalizer")),
                PreTokenizerReader.splitter(settings.get("pre_tokenizer")),
                added.values(),
                config.eosTokens()));
    }

    private void checkModel() {
        JsonNode type = modelSettings.get("type");
        if (type == null || !type.asText().equals("BPE")) {
            throw PreTokenizerReader.unsupported("model.type", "BPE", type);
        }
        for (String name : List.of("continuing_subword_prefix", "end_of_word_suffix")) {
            JsonNode value = modelSettings.get(name);
            if (value != null && !value.isNull() && !value.asText().isEmpty()) {
                throw PreTokenizerReader.unsupported("model." + name, "none", value);
            }
        }
        JsonNode dropout = modelSettings.get("dropout");
        if (dropout != null && !dropout.isNull() && dropout.asDouble() != 0) {
            throw PreTokenizerReader.unsupported("model.dropout", "none", dropout);
        }
        PreTokenizerReader.checkDecoder(settings.get("decoder"));
    }

    private MergeTable mergeTable(Map<Integer, AddedToken> added) {
        MergeTable table = new MergeTable();
        for (int i = 0; i < mergeLefts.size(); i++) {
            String left = mergeLefts.get(i);
            String right = mergeRights.get(i);
            int result = mergeId(i, left + right);
            int leftId = mergeId(i, left);
            int rightId = mergeId(i, right);
            if (!added.containsKey(result) && !added.containsKey(leftId) && !added.containsKey(rightId)) {
                table.put(leftId, rightId, i, result);
            }
        }
        return table;
    }

    private int mergeId(int index, String token) {
        Integer id = vocab.get(token);
        if (id == null) {
            throw invalid("model.merges[%d]: expected tokens of the vocabulary, got \"%s\"".formatted(index, token));
        }
        return id;
    }

    private Map<Integer, AddedToken> addedTokens(TokenizerConfig config) {
        Map<Integer, AddedToken> added = new LinkedHashMap<>();
        JsonNode list = settings.get("added_tokens");
        if (list != null && !list.isNull()) {
            if (!list.isArray()) {
                throw invalid("added_tokens: expected an array, got " + list.getNodeType());
            }
            for (JsonNode node : list) {
                AddedToken token = TokenizerConfig.addedToken(FILE, node.path("id"), node);
                if (added.put(token.id(), token) != null) {
                    throw invalid("added_tokens: expected every id once, got %d twice".formatted(token.id()));
                }
            }
        }
        config.addedTokens().forEach((id, token) -> {
            AddedToken known = added.putIfAbsent(id, token);
            if (known != null && !known.content().equals(token.content())) {
                throw invalid("added token %d: expected \"%s\" as in tokenizer_config.json, got \"%s\""
                        .formatted(id, token.content(), known.content()));
            }
        });
        limit("added_tokens", MAX_ADDED, added.size());
        for (AddedToken token : added.values()) {
            limit("added token " + token.id(), MAX_ADDED_LENGTH, token.content().length());
        }
        return added;
    }

    private static void limit(String what, int most, int got) {
        if (got > most) {
            throw new InvalidModelException(
                    "TOK_LIMIT", "%s: %s: expected a size of at most %d, got %d".formatted(FILE, what, most, got));
        }
    }

    private static InvalidModelException invalid(String message) {
        return new InvalidModelException("TOK_INVALID", FILE + ": " + message);
    }
}
