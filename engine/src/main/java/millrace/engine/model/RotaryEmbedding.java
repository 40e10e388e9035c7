package millrace.engine.model;

/// The rotary embedding of a model: frequencies and what they turn a position into.
///
/// Frequencies, angles, cosines and sines are F64 and rounded to F32 once: the angle of a position beyond a million
/// would have lost its last digits in F32. Cosine and sine are those of [SinCos]. Frequency `i` of `r/2` is
/// `theta^(−2i/r)`, then scaled:
///
/// - **YaRN**, `d(β) = r · ln(L₀ / 2πβ) / (2 ln θ)`: between `low = ⌊d(betaFast)⌋` and `high = ⌈d(betaSlow)⌉` a ramp
///   leads from the frequency itself to the frequency divided by `factor`. Cosine and sine are multiplied by the
///   attention factor.
/// - **Llama 3**: by wavelength, kept below `L₀ / highFreqFactor`, divided by `factor` above `L₀ / lowFreqFactor`,
///   a mixture between.
final class RotaryEmbedding {
    private final double[] frequencies;
    private final double attentionFactor;

    RotaryEmbedding(RopeConfig config) {
        frequencies = frequencies(config);
        attentionFactor = attentionFactor(config.scaling());
    }

    /// Angle per position of pair `i`.
    double frequency(int i) {
        return frequencies[i];
    }

    /// All of them, to be watched.
    double[] frequencies() {
        return frequencies;
    }

    /// What cosines and sines are multiplied by; 1 unless YaRN says otherwise.
    double attentionFactor() {
        return attentionFactor;
    }

    int rotaryDim() {
        return 2 * frequencies.length;
    }

    /// Writes the cosines, then the sines of a position.
    void angles(int position, float[] out, int offset) {
        int half = frequencies.length;
        for (int i = 0; i < half; i++) {
            double angle = position * frequencies[i];
            out[offset + i] = (float) (SinCos.cos(angle) * attentionFactor);
            out[offset + half + i] = (float) (SinCos.sin(angle) * attentionFactor);
        }
    }

    /// Factor of the softmax scale in latent attention: `m(mscaleAllDim)²`, 1 without YaRN. It comes on top of the
    /// attention factor, and at every length.
    static double softmaxFactor(RopeScaling scaling) {
        if (scaling instanceof RopeScaling.Yarn yarn && yarn.mscaleAllDim() != null && yarn.mscaleAllDim() != 0) {
            double m = magnitude(yarn.factor(), yarn.mscaleAllDim());
            return m * m;
        }
        return 1;
    }

    private static double[] frequencies(RopeConfig config) {
        int r = config.rotaryDim();
        double[] inv = new double[r / 2];
        for (int i = 0; i < inv.length; i++) {
            inv[i] = StrictMath.pow(config.theta(), -2.0 * i / r);
        }
        switch (config.scaling()) {
            case RopeScaling.None none -> {}
            case RopeScaling.Yarn yarn -> stretch(inv, config, yarn);
            case RopeScaling.Llama3 llama3 -> stretch(inv, llama3);
        }
        return inv;
    }

    private static void stretch(double[] inv, RopeConfig config, RopeScaling.Yarn yarn) {
        double fast = dimension(config, yarn, yarn.betaFast());
        double slow = dimension(config, yarn, yarn.betaSlow());
        double low = Math.max(yarn.truncate() ? Math.floor(fast) : fast, 0);
        double high = Math.min(yarn.truncate() ? Math.ceil(slow) : slow, config.rotaryDim() - 1);
        if (low == high) {
            high += 0.001;
        }
        for (int i = 0; i < inv.length; i++) {
            double ramp = Math.clamp((i - low) / (high - low), 0.0, 1.0);
            inv[i] = inv[i] / yarn.factor() * ramp + inv[i] * (1 - ramp);
        }
    }

    /// The dimension that turns `beta` times within the original context.
    private static double dimension(RopeConfig config, RopeScaling.Yarn yarn, double beta) {
        double turns = yarn.originalMaxPositionEmbeddings() / (2 * Math.PI * beta);
        return config.rotaryDim() * StrictMath.log(turns) / (2 * StrictMath.log(config.theta()));
    }

    private static void stretch(double[] inv, RopeScaling.Llama3 s) {
        double original = s.originalMaxPositionEmbeddings();
        for (int i = 0; i < inv.length; i++) {
            double wavelength = 2 * Math.PI / inv[i];
            if (wavelength > original / s.lowFreqFactor()) {
                inv[i] /= s.factor();
            } else if (wavelength >= original / s.highFreqFactor()) {
                double kept = (original / wavelength - s.lowFreqFactor()) / (s.highFreqFactor() - s.lowFreqFactor());
                inv[i] = (1 - kept) * inv[i] / s.factor() + kept * inv[i];
            }
        }
    }

    private static double attentionFactor(RopeScaling scaling) {
        if (!(scaling instanceof RopeScaling.Yarn yarn)) {
            return 1;
        }
        if (yarn.attentionFactor() != null) {
            return yarn.attentionFactor();
        }
        Double mscale = yarn.mscale();
        Double allDim = yarn.mscaleAllDim();
        if (mscale != null && allDim != null && mscale != 0 && allDim != 0) {
            return magnitude(yarn.factor(), mscale) / magnitude(yarn.factor(), allDim);
        }
        return magnitude(yarn.factor(), 1);
    }

    private static double magnitude(double factor, double mscale) {
        return factor <= 1 ? 1 : 0.1 * mscale * StrictMath.log(factor) + 1;
    }
}
