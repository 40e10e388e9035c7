package millrace.engine.model;

/// Rotary position embedding of one model.
///
/// @param theta base of the frequencies: `theta^(-2i / rotaryDim)`
/// @param rotaryDim rotated dimensions of a head, even; the first ones of a head, in latent attention the rope part
/// @param interleaved pairs are (2i, 2i+1) if true, (i, i + rotaryDim/2) if false
public record RopeConfig(double theta, int rotaryDim, boolean interleaved, RopeScaling scaling) {
    public RopeConfig {
        if (!(theta > 0) || rotaryDim <= 0 || rotaryDim % 2 != 0) {
            throw new IllegalArgumentException("rope: theta " + theta + ", rotaryDim " + rotaryDim);
        }
    }
}
