package millrace.engine.tokenizer;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SortedSet;
import java.util.TreeSet;
import millrace.engine.InvalidModelException;
import org.jspecify.annotations.Nullable;

/// Byte-level byte-pair encoding; both files, tokenizer.json and tiktoken.model, come down to it.
final class BpeTokenizer implements Tokenizer {
    /// What a file says, read and checked.
    ///
    /// @param wholePieces whether a piece that is a token as a whole is that token, whatever the merges say
    /// @param nfc whether text is normalised before it is split
    /// @param eosTokens texts of the tokens that end a text; those that the tokenizer lacks are passed over
    record Parts(
            String kind,
            String digest,
            Vocabulary vocabulary,
            MergeTable merges,
            boolean wholePieces,
            boolean nfc,
            Splitter splitter,
            Collection<AddedToken> added,
            Collection<String> eosTokens) {}

    private static final byte[] NO_BYTES = {};

    private final Parts parts;
    private final BytePairMerger merger;
    private final int[] byteIds = new int[256];
    private final Map<Integer, AddedToken> addedById = new HashMap<>();
    private final Map<String, Integer> addedByText = new LinkedHashMap<>();
    private final AddedTokens onText;
    private final AddedTokens onNormalized;
    private final List<Integer> eosTokenIds;
    private final int vocabSize;

    BpeTokenizer(Parts parts) {
        this.parts = parts;
        merger = new BytePairMerger(parts.merges());
        for (int b = 0; b < 256; b++) {
            byteIds[b] = parts.vocabulary().id(String.valueOf((char) b));
        }
        int size = parts.vocabulary().size();
        for (AddedToken token : parts.added()) {
            if (addedById.put(token.id(), token) != null || addedByText.put(token.content(), token.id()) != null) {
                throw new InvalidModelException(
                        "TOK_INVALID",
                        "%s: added tokens: expected one text per id, got \"%s\" with id %d twice"
                                .formatted(parts.kind(), token.content(), token.id()));
            }
            size = Math.max(size, token.id() + 1);
        }
        vocabSize = size;
        onText = new AddedTokens(
                parts.added().stream().filter(t -> !t.normalized()).toList());
        onNormalized = new AddedTokens(
                parts.added().stream().filter(AddedToken::normalized).toList());
        SortedSet<Integer> eos = new TreeSet<>();
        for (String token : parts.eosTokens()) {
            Integer id = addedByText.get(token);
            if (id == null) {
                id = parts.vocabulary().id(new String(Utf8.encode(token), StandardCharsets.ISO_8859_1));
            }
            if (id != null) {
                eos.add(id);
            }
        }
        eosTokenIds = List.copyOf(eos);
    }

    @Override
    public int[] encode(String text, boolean specials) {
        Utf8.requireWellFormed("prompt", text);
        Ids ids = new Ids();
        if (!specials) {
            encodePlain(normalize(text), ids);
            return ids.toArray();
        }
        for (AddedTokens.Part part : onText.split(text)) {
            if (part.token() != null) {
                ids.add(part.token().id());
                continue;
            }
            String plain = normalize(text.substring(part.from(), part.to()));
            for (AddedTokens.Part inner : onNormalized.split(plain)) {
                if (inner.token() != null) {
                    ids.add(inner.token().id());
                } else {
                    encodePlain(plain.substring(inner.from(), inner.to()), ids);
                }
            }
        }
        return ids.toArray();
    }

    private String normalize(String text) {
        return parts.nfc() ? Nfc.normalize(text) : text;
    }

    private void encodePlain(String text, Ids ids) {
        parts.splitter().split(text, (from, to) -> encodePiece(text, from, to, ids));
    }

    private void encodePiece(String text, int from, int to, Ids ids) {
        byte[] bytes = new byte[Math.multiplyExact(3, to - from)];
        int n = Utf8.encode(text, from, to, bytes);
        if (parts.wholePieces()) {
            Integer whole = parts.vocabulary().id(new String(bytes, 0, n, StandardCharsets.ISO_8859_1));
            if (whole != null) {
                ids.add(whole);
                return;
            }
        }
        int[] symbols = new int[n];
        for (int i = 0; i < n; i++) {
            symbols[i] = byteIds[bytes[i] & 0xFF];
        }
        merger.merge(symbols, n, ids);
    }

    @Override
    public String decode(int[] ids) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(4 * ids.length);
        for (int id : ids) {
            bytes.writeBytes(allBytes(id));
        }
        StringBuilder text = new StringBuilder(bytes.size());
        Utf8 utf8 = new Utf8();
        utf8.decode(bytes.toByteArray(), text);
        utf8.end(text);
        return text.toString();
    }

    @Override
    public byte[] bytes(int id) {
        return isSpecial(id) ? NO_BYTES : allBytes(id);
    }

    private byte[] allBytes(int id) {
        AddedToken added = addedById.get(id);
        if (added != null) {
            return Utf8.encode(added.content());
        }
        byte[] bytes = parts.vocabulary().bytes(id);
        return bytes == null ? NO_BYTES : bytes.clone();
    }

    @Override
    public int vocabSize() {
        return vocabSize;
    }

    @Override
    public @Nullable Integer special(String text) {
        return addedByText.get(text);
    }

    @Override
    public Map<String, Integer> addedTokens() {
        return new LinkedHashMap<>(addedByText);
    }

    @Override
    public boolean isSpecial(int id) {
        AddedToken added = addedById.get(id);
        return added != null && added.special();
    }

    @Override
    public List<Integer> eosTokenIds() {
        return eosTokenIds;
    }

    @Override
    public String digest() {
        return parts.digest();
    }

    @Override
    public String kind() {
        return parts.kind();
    }

    @Override
    public String toString() {
        return "%s[%d ids, %d merges, %d added tokens, sha256 %s]"
                .formatted(
                        kind(), vocabSize, parts.merges().size(), parts.added().size(), digest());
    }
}
