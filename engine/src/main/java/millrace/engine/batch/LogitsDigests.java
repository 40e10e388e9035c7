package millrace.engine.batch;

import java.util.ArrayList;
import java.util.List;
import millrace.engine.format.CrcShift;

/// Digests of the logits that one sequence's generated tokens were chosen from: CRC-32C over the rows of so many tokens each,
/// the last over what remains. It depends on nothing but the bits of the logits.
final class LogitsDigests {
    private final int every;
    private final CrcShift row;
    private final int[] whole;
    private int current;
    private int rows;

    /// @param rowBytes of one row
    /// @param every tokens of a digest; 0 for none at all
    LogitsDigests(long rowBytes, int every, int maxNewTokens) {
        this.every = every;
        row = new CrcShift(rowBytes);
        whole = new int[every == 0 ? 0 : maxNewTokens / every];
    }

    /// Adds the row of the next token.
    ///
    /// @param checksum CRC-32C of the row
    void add(int checksum) {
        if (every == 0) {
            return;
        }
        current = row.join(current, checksum);
        rows++;
        if (rows % every == 0) {
            whole[rows / every - 1] = current;
            current = 0;
        }
    }

    /// Goes back to where at most so many tokens were digested.
    ///
    /// @return how many are now: a digest that was begun cannot be taken back in part
    int keep(int tokens) {
        if (every == 0 || tokens >= rows) {
            return tokens;
        }
        current = 0;
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
            values.add(current);
        }
        return values;
    }
}
