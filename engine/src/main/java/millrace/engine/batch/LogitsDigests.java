package millrace.engine.batch;

import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32C;

/// Digests of the logits that one sequence's generated tokens were chosen from: CRC-32C over the rows of so many tokens each,
/// the last over what remains. It depends on nothing but the bits of the logits.
final class LogitsDigests {
    private final LogitsCheck check;
    private final int every;
    private final CRC32C crc = new CRC32C();
    private final int[] whole;
    private int rows;

    /// @param every tokens of a digest; 0 for none at all
    LogitsDigests(LogitsCheck check, int every, int maxNewTokens) {
        this.check = check;
        this.every = every;
        whole = new int[every == 0 ? 0 : maxNewTokens / every];
    }

    /// Adds the row of the next token.
    void add(float[] logits, int offset) {
        if (every == 0) {
            return;
        }
        check.digest(crc, logits, offset);
        rows++;
        if (rows % every == 0) {
            whole[rows / every - 1] = (int) crc.getValue();
            crc.reset();
        }
    }

    /// Goes back to where at most so many tokens were digested.
    ///
    /// @return how many are now: a digest that was begun cannot be taken back in part
    int keep(int tokens) {
        if (every == 0 || tokens >= rows) {
            return tokens;
        }
        crc.reset();
        rows = tokens - tokens % every;
        return rows;
    }

    int every() {
        return every;
    }

    /// All digests, that of the remaining rows included.
    List<Integer> values() {
        List<Integer> values = new ArrayList<>();
        for (int i = 0; every > 0 && i < rows / every; i++) {
            values.add(whole[i]);
        }
        if (every > 0 && rows % every != 0) {
            values.add((int) crc.getValue());
        }
        return values;
    }
}
