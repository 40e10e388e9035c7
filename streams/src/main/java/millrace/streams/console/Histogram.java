package millrace.streams.console;

/// How many records were at most as long as each bound.
///
/// @param bounds ascending, the last one infinity
/// @param upTo counts of records up to each bound, those up to smaller bounds included
record Histogram(double[] bounds, double[] upTo) {
    Histogram {
        bounds = bounds.clone();
        upTo = upTo.clone();
    }

    @Override
    public double[] bounds() {
        return bounds.clone();
    }

    @Override
    public double[] upTo() {
        return upTo.clone();
    }

    /// What the share `q` of the records since `earlier` stayed below, interpolated within its bucket; not a number where
    /// there were none. Beyond the last finite bound that bound is the answer.
    double quantileSince(Histogram earlier, double q) {
        boolean comparable = earlier.bounds.length == bounds.length;
        int last = bounds.length - 1;
        double all = upTo[last] - (comparable ? earlier.upTo[last] : 0);
        if (all <= 0) {
            return Double.NaN;
        }
        double rank = q * all;
        double below = 0;
        double from = 0;
        for (int i = 0; i < last; i++) {
            double here = upTo[i] - (comparable ? earlier.upTo[i] : 0);
            if (here >= rank) {
                double within = here - below;
                return within <= 0 ? from : from + (bounds[i] - from) * (rank - below) / within;
            }
            below = here;
            from = bounds[i];
        }
        return from;
    }
}
