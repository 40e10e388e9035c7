package millrace.engine.batch;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import millrace.engine.tokenizer.Tokenizer;
import org.jspecify.annotations.Nullable;

/// Sixty-four tokens: 0 to 59 are letters and pairs of letters, 60 to 62 the three bytes of "€", 63 ends a text.
final class FakeTokenizer implements Tokenizer {
    static final int END = 63;
    private static final byte[] EURO = "€".getBytes(StandardCharsets.UTF_8);

    @Override
    public int[] encode(String text, boolean specials) {
        return text.chars().map(c -> (c - 'a') % 26).toArray();
    }

    @Override
    public String decode(int[] ids) {
        StringBuilder text = new StringBuilder();
        for (int id : ids) {
            text.append(new String(bytes(id), StandardCharsets.UTF_8));
        }
        return text.toString();
    }

    @Override
    public byte[] bytes(int id) {
        if (id < 26) {
            return new byte[] {(byte) ('a' + id)};
        }
        if (id < 60) {
            return new byte[] {(byte) ('a' + id % 26), (byte) ('a' + id / 26)};
        }
        return id < END ? new byte[] {EURO[id - 60]} : new byte[0];
    }

    @Override
    public int vocabSize() {
        return FakeModel.VOCAB;
    }

    @Override
    public @Nullable Integer special(String text) {
        return text.equals("<end>") ? END : null;
    }

    @Override
    public Map<String, Integer> addedTokens() {
        return Map.of("<end>", END);
    }

    @Override
    public boolean isSpecial(int id) {
        return id == END;
    }

    @Override
    public List<Integer> eosTokenIds() {
        return List.of(END);
    }

    @Override
    public String digest() {
        return "0".repeat(64);
    }

    @Override
    public String kind() {
        return "fake";
    }
}
