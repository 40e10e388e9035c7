package millrace.engine.tokenizer;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import millrace.engine.InvalidModelException;

/// Reads tiktoken.model, as Kimi's checkpoints have it: a line per token, its bytes in Base64 and its rank.
///
/// The rank is id and priority in one: of two neighbours, the pair whose bytes together have the lowest rank merges
/// first. The 256 ids after the last rank are special; tokenizer_config.json names some of them.
///
/// Kimi's own code cuts texts above 400,000 characters, and runs above 25,000 characters with or without white space,
/// before it splits them. Here a text is one, whatever its length, so that ids differ around such cuts.
final class TiktokenModel {
    static final String FILE = "tiktoken.model";
    private static final int MAX_BYTES = 64 << 20;
    private static final int MAX_TOKEN_BYTES = 1024;
    private static final int SPECIALS = 256;

    private TiktokenModel() {}

    static BpeTokenizer read(byte[] file, TokenizerConfig config) {
        if (file.length > MAX_BYTES) {
            throw new InvalidModelException(
                    "TOK_LIMIT", "%s: size: expected at most %d bytes, got %d".formatted(FILE, MAX_BYTES, file.length));
        }
        Map<String, Integer> ranks = ranks(file);
        int base = ranks.size();
        List<AddedToken> added = specials(base, config);
        Set<String> eos = new LinkedHashSet<>(config.eosTokens());
        eos.addAll(List.of("[EOS]", "[EOT]", "<|im_end|>"));
        return new BpeTokenizer(new BpeTokenizer.Parts(
                FILE,
                Hashes.sha256(file),
                new Vocabulary(FILE, ranks, Map.of()),
                merges(ranks),
                true,
                false,
                new Splitter(List.of(Splitter.Stage.isolated(SplitPattern.trusted(SplitPattern.KIMI)))),
                added,
                eos));
    }

    private static Map<String, Integer> ranks(byte[] file) {
        Map<String, Integer> ranks = new HashMap<>();
        int line = 0;
        for (String text : new String(file, StandardCharsets.ISO_8859_1).split("\n")) {
            line++;
            text = text.strip();
            if (text.isEmpty()) {
                continue;
            }
            int space = text.indexOf(' ');
            if (space < 0) {
                throw invalid(line, "a token in Base64, a space and a rank", text);
            }
            String bytes = new String(base64(line, text.substring(0, space)), StandardCharsets.ISO_8859_1);
            if (ranks.put(bytes, rank(line, text.substring(space + 1))) != null) {
                throw invalid(line, "every token once", text);
            }
        }
        if (ranks.size() + SPECIALS > Vocabulary.MAX_IDS) {
            throw new InvalidModelException(
                    "TOK_LIMIT",
                    "%s: expected at most %d tokens, got %d"
                            .formatted(FILE, Vocabulary.MAX_IDS - SPECIALS, ranks.size()));
        }
        for (Map.Entry<String, Integer> entry : ranks.entrySet()) {
            if (entry.getValue() >= ranks.size()) {
                throw new InvalidModelException(
                        "TOK_INVALID",
                        "%s: ranks: expected 0 to %d without a gap, got %d"
                                .formatted(FILE, ranks.size() - 1, entry.getValue()));
            }
        }
        return ranks;
    }

    private static byte[] base64(int line, String text) {
        byte[] bytes;
        try {
            bytes = Base64.getDecoder().decode(text);
        } catch (IllegalArgumentException e) {
            throw invalid(line, "Base64", text);
        }
        if (bytes.length == 0 || bytes.length > MAX_TOKEN_BYTES) {
            throw invalid(line, "1 to " + MAX_TOKEN_BYTES + " bytes", bytes.length + " bytes");
        }
        return bytes;
    }

    private static int rank(int line, String text) {
        try {
            int rank = Integer.parseInt(text);
            if (rank >= 0 && rank < Vocabulary.MAX_IDS) {
                return rank;
            }
        } catch (NumberFormatException e) {
            // said below, together with the ranks out of range
        }
        throw invalid(line, "a rank from 0 to " + (Vocabulary.MAX_IDS - 1), text);
    }

    private static List<AddedToken> specials(int base, TokenizerConfig config) {
        for (AddedToken token : config.addedTokens().values()) {
            if (token.id() < base || token.id() >= base + SPECIALS) {
                throw new InvalidModelException(
                        "TOK_INVALID",
                        "%s: added token \"%s\": expected an id from %d to %d, the %d after the ranks of %s, got %d"
                                .formatted(
                                        TokenizerConfig.FILE,
                                        token.content(),
                                        base,
                                        base + SPECIALS - 1,
                                        SPECIALS,
                                        FILE,
                                        token.id()));
            }
        }
        List<AddedToken> added = new ArrayList<>();
        for (int id = base; id < base + SPECIALS; id++) {
            AddedToken named = config.addedTokens().get(id);
            added.add(named != null ? named : AddedToken.special(id, "<|reserved_token_" + id + "|>"));
        }
        return added;
    }

    /// Every way to make a token of two others, as priority the token's rank: the same merges in the same order as
    /// looking up the bytes of every pair.
    private static MergeTable merges(Map<String, Integer> ranks) {
        MergeTable table = new MergeTable();
        ranks.forEach((bytes, rank) -> {
            for (int cut = 1; cut < bytes.length(); cut++) {
                Integer left = ranks.get(bytes.substring(0, cut));
                Integer right = left == null ? null : ranks.get(bytes.substring(cut));
                if (right != null) {
                    table.put(left, right, rank, rank);
                }
            }
        });
        return table;
    }

    private static InvalidModelException invalid(int line, String expected, String got) {
        return new InvalidModelException(
                "TOK_INVALID",
                "%s: line %d: expected %s, got \"%s\""
                        .formatted(FILE, line, expected, got.length() <= 80 ? got : got.substring(0, 80) + "…"));
    }
}
