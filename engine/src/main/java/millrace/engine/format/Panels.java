package millrace.engine.format;

import java.lang.foreign.MemorySegment;

/// Panels of any format, read number by number: slow, exact, and what the fast kernels must agree with.
///
/// `format` is the panel's own: a raw panel of a packed matrix is [WeightFormat#BF16].
public final class Panels {
    private Panels() {}

    /// The values of the codes of one row: in plain formats its weights, in grouped ones weights without scales.
    public static void codes(
            WeightFormat format, MemorySegment data, long at, int cols, int lane, float[] out, int offset) {
        switch (format) {
            case F32 -> F32Panel.row(data, at, cols, lane, out, offset);
            case BF16 -> Bf16Panel.row(data, at, cols, lane, out, offset);
            case PACKED -> PackedPanel.row(data, at, cols, lane, out, offset);
            case INT8 -> Int8Panel.row(data, at, cols, lane, out, offset);
            case INT4 -> Int4Panel.row(data, at, cols, lane, out, offset);
            case FP8 -> Fp8Panel.row(data, at, cols, lane, out, offset);
        }
    }

    /// The scale of a row's group; 1 in plain formats.
    public static float scale(WeightFormat format, MemorySegment data, long at, int lane, int group) {
        return switch (format) {
            case F32, BF16, PACKED -> 1;
            case INT8 -> Int8Panel.scale(data, at, lane, group);
            case INT4 -> Int4Panel.scale(data, at, lane, group);
            case FP8 -> Fp8Panel.scale(data, at, lane, group);
        };
    }

    /// The weights of one row: in grouped formats `code · scale`, rounded once.
    public static void weights(
            WeightFormat format, MemorySegment data, long at, int cols, int lane, float[] out, int offset) {
        codes(format, data, at, cols, lane, out, offset);
        for (int g = 0; g < format.groups(cols); g++) {
            float scale = scale(format, data, at, lane, g);
            for (int k = g * format.group(); k < Math.min(cols, (g + 1) * format.group()); k++) {
                out[offset + k] *= scale;
            }
        }
    }
}
