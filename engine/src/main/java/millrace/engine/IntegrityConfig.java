package millrace.engine;

import java.time.Duration;

/// How much an engine checks while it serves.
///
/// @param profile `default`; `strict`, which also verifies every sealed KV page at each step that reads it; or `off`, for
///        measurements only
/// @param scrubInterval within which every resident block of weights is verified again; zero never
/// @param scrubShare share of one core that this may take, above 0 and at most 1
/// @param kvMaxAge a sealed KV page that was verified longer ago is verified again when a prompt takes it from the cache
/// @param canaryInterval how often the golden prompt runs beside the traffic; zero never
/// @param logitsEvery generated tokens that one digest of their logits covers; 0 for none
/// @param activations whether the largest activations are kept, for activation proofs
/// @param stepTimeout a step that takes longer, and much longer than those before it, is taken for one that hangs; zero never
public record IntegrityConfig(
        String profile,
        Duration scrubInterval,
        double scrubShare,
        Duration kvMaxAge,
        Duration canaryInterval,
        int logitsEvery,
        boolean activations,
        Duration stepTimeout) {
    private static final Duration STEP_TIMEOUT = Duration.ofMinutes(5);

    public static final IntegrityConfig DEFAULT = new IntegrityConfig(
            "default", Duration.ofMinutes(5), 0.01, Duration.ofMinutes(1), Duration.ofMinutes(1), 32);

    /// Without any check; bits are the same.
    public static final IntegrityConfig OFF =
            new IntegrityConfig("off", Duration.ZERO, 0.01, Duration.ZERO, Duration.ZERO, 0);

    private static final int PRODUCT_INTERVAL = 64;

    public IntegrityConfig {
        if (!profile.equals("default") && !profile.equals("strict") && !profile.equals("off")) {
            throw new IllegalArgumentException("integrity profile: expected default, strict or off, got \"" + profile + "\"");
        }
        if (scrubInterval.isNegative() || kvMaxAge.isNegative() || canaryInterval.isNegative() || stepTimeout.isNegative()) {
            throw new IllegalArgumentException("integrity intervals: expected zero or more, got " + scrubInterval + ", "
                    + kvMaxAge + ", " + canaryInterval + " and " + stepTimeout);
        }
        if (!(scrubShare > 0 && scrubShare <= 1)) {
            throw new IllegalArgumentException("integrity scrub share: expected more than 0 and at most 1, got " + scrubShare);
        }
        if (logitsEvery < 0) {
            throw new IllegalArgumentException("integrity logits digests: expected 0 or more tokens each, got " + logitsEvery);
        }
    }

    /// Without activations.
    public IntegrityConfig(
            String profile,
            Duration scrubInterval,
            double scrubShare,
            Duration kvMaxAge,
            Duration canaryInterval,
            int logitsEvery) {
        this(profile, scrubInterval, scrubShare, kvMaxAge, canaryInterval, logitsEvery, false);
    }

    /// With the default for steps.
    public IntegrityConfig(
            String profile,
            Duration scrubInterval,
            double scrubShare,
            Duration kvMaxAge,
            Duration canaryInterval,
            int logitsEvery,
            boolean activations) {
        this(profile, scrubInterval, scrubShare, kvMaxAge, canaryInterval, logitsEvery, activations, STEP_TIMEOUT);
    }

    public IntegrityConfig withStepTimeout(Duration value) {
        return new IntegrityConfig(
                profile, scrubInterval, scrubShare, kvMaxAge, canaryInterval, logitsEvery, activations, value);
    }

    public boolean isStrict() {
        return profile.equals("strict");
    }

    /// Tiles of attention over INT8 to one of which a product of integers is computed a second time; 0 for none.
    public int productInterval() {
        return isOff() ? 0 : isStrict() ? 1 : PRODUCT_INTERVAL;
    }

    public boolean isOff() {
        return profile.equals("off");
    }
}
