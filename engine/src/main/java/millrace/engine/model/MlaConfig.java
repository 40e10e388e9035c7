package millrace.engine.model;

/// Dimensions of multi-head latent attention.
///
/// The norms of the two latents use [#LATENT_NORM_EPS], whatever `rms_norm_eps` says: the reference builds them with
/// its class default.
///
/// @param qLoraRank width of the query latent; 0 if queries are projected directly (`q_proj`)
/// @param kvLoraRank width of the latent that is cached
/// @param qkNopeHeadDim un-rotated dimensions of a query or key head
/// @param qkRopeHeadDim rotated dimensions of a query head, and of the one key that all heads share
/// @param vHeadDim dimensions of a value head; may differ from `qkNopeHeadDim` either way
public record MlaConfig(int qLoraRank, int kvLoraRank, int qkNopeHeadDim, int qkRopeHeadDim, int vHeadDim) {
    /// Epsilon of `q_a_layernorm` and `kv_a_layernorm`.
    public static final float LATENT_NORM_EPS = 1e-6f;

    public MlaConfig {
        if (qLoraRank < 0 || kvLoraRank <= 0 || qkNopeHeadDim <= 0 || qkRopeHeadDim <= 0 || vHeadDim <= 0) {
            throw new IllegalArgumentException("latent attention: " + qLoraRank + ", " + kvLoraRank + ", "
                    + qkNopeHeadDim + ", " + qkRopeHeadDim + ", " + vHeadDim);
        }
    }

    /// Dimensions of a whole query or key head; the softmax scale comes from this one.
    public int qkHeadDim() {
        return qkNopeHeadDim + qkRopeHeadDim;
    }
}
