package millrace.engine.weights;

import java.util.function.Supplier;

/// A text that may be read only so often: a hostile expression can take longer on it than the world will stand.
public final class BudgetedText implements CharSequence {
    private final String text;
    private final Supplier<? extends RuntimeException> exceeded;
    private long reads;

    /// @param reads characters that may be looked at
    /// @param exceeded what is thrown by the first look beyond
    public BudgetedText(String text, long reads, Supplier<? extends RuntimeException> exceeded) {
        this.text = text;
        this.reads = reads;
        this.exceeded = exceeded;
    }

    @Override
    public char charAt(int index) {
        if (--reads < 0) {
            throw exceeded.get();
        }
        return text.charAt(index);
    }

    @Override
    public int length() {
        return text.length();
    }

    @Override
    public CharSequence subSequence(int start, int end) {
        return text.subSequence(start, end);
    }

    @Override
    public String toString() {
        return text;
    }
}
