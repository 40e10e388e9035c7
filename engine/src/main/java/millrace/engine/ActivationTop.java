package millrace.engine;

import java.util.Arrays;
import millrace.engine.format.BFloat16;

/// The largest activations of a run of generated tokens: what an activation proof is made of.
///
/// @param indices into the final norm's outputs `[token][hiddenSize]` of the run, largest magnitude first and the lower
///        index first among equals; not to be changed
/// @param bits the BF16 bits of each; not to be changed
public record ActivationTop(int[] indices, int[] bits) {
    /// Activations that are kept of a run.
    public static final int COUNT = 128;

    /// Generated tokens of a run; the last of a completion may have fewer.
    public static final int TOKENS = 32;

    /// The largest of the first `count` values, of which there must be at least [#COUNT].
    ///
    /// Values are ordered by the bits of their magnitude, and by index: packed into one number each, so that a plain sort
    /// finds the largest.
    public static ActivationTop of(float[] values, int count) {
        long[] order = new long[count];
        for (int i = 0; i < count; i++) {
            order[i] = (long) (BFloat16.fromFloat(values[i]) & 0x7FFF) << 32 | Integer.MAX_VALUE - i;
        }
        Arrays.sort(order);
        int[] indices = new int[COUNT];
        int[] bits = new int[COUNT];
        for (int i = 0; i < COUNT; i++) {
            indices[i] = Integer.MAX_VALUE - (int) order[count - 1 - i];
            bits[i] = BFloat16.fromFloat(values[indices[i]]) & 0xFFFF;
        }
        return new ActivationTop(indices, bits);
    }
}
