package millrace.engine;

import java.util.List;

/// How the model was verified when it was loaded, as facts for every attestation.
///
/// @param mode `require`, `warn` or `off`
/// @param verified whether a signature covers every byte that was loaded
/// @param root digest of the signed list of files, 64 hexadecimal digits; empty without a signature
/// @param bundleSha256 SHA-256 of the signature bundle; empty without one
/// @param keyHint SHA-256 of the PEM text of the key that verified it; empty without one
/// @param problems what would have stopped the start in the mode `require`, each with its code
public record ModelTrust(
        String mode, boolean verified, String root, String bundleSha256, String keyHint, List<String> problems) {
    /// Nothing was asked and nothing verified.
    public static final ModelTrust OFF = new ModelTrust("off", false, "", "", "", List.of());

    public ModelTrust {
        problems = List.copyOf(problems);
    }
}
