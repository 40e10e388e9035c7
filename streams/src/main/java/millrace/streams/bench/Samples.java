package millrace.streams.bench;

import java.util.ArrayList;
import java.util.List;

/// One figure, measured again and again: its median and its spread.
public final class Samples {
    private final List<Double> values = new ArrayList<>();

    public static Samples of(double... values) {
        Samples samples = new Samples();
        for (double value : values) {
            samples.add(value);
        }
        return samples;
    }

    public void add(double value) {
        values.add(value);
    }

    /// In the order in which they came.
    public List<Double> values() {
        return List.copyOf(values);
    }

    public boolean isEmpty() {
        return values.isEmpty();
    }

    public int count() {
        return values.size();
    }

    /// The middle one; of an even number the lower of the two in the middle.
    public double median() {
        return at((values.size() - 1) / 2);
    }

    public double min() {
        return at(0);
    }

    public double max() {
        return at(values.size() - 1);
    }

    private double at(int rank) {
        return values.stream().sorted().skip(rank).findFirst()
                .orElseThrow(() -> new IllegalStateException("no samples: nothing was measured"));
    }
}
