package millrace.engine.format;

import org.jspecify.annotations.Nullable;

/// How the weights of a matrix are stored: in panels of 16 rows, lane = row, each panel at a multiple of 64 bytes.
///
/// *Plain* formats hold weights themselves. *Grouped* ones hold small codes, and a scale for each row and group of
/// consecutive columns: a weight is `code · scale`, and a product applies the scale to the sum of its group.
/// The class of each format has the bytes.
public enum WeightFormat {
    /// See [F32Panel].
    F32("f32", 0),
    /// See [Bf16Panel].
    BF16("bf16", 0),
    /// BF16 in about 12 bits, without loss; see [PackedPanel]. Panels differ in size, and a panel that gains nothing
    /// is a BF16 panel.
    PACKED("packed", 0),
    /// See [Int8Panel].
    INT8("int8", Int8Panel.GROUP),
    /// See [Int4Panel].
    INT4("int4", Int4Panel.GROUP),
    /// See [Fp8Panel].
    FP8("fp8", Fp8Panel.GROUP);

    /// Rows of a panel.
    public static final int PANEL_ROWS = 16;

    private final String id;
    private final int group;

    WeightFormat(String id, int group) {
        this.id = id;
        this.group = group;
    }

    /// The name in configuration and files.
    public String id() {
        return id;
    }

    /// The format of that name, or null.
    public static @Nullable WeightFormat named(String id) {
        for (WeightFormat format : values()) {
            if (format.id.equals(id)) {
                return format;
            }
        }
        return null;
    }

    /// Whether weights are codes with a scale for each group of columns.
    public boolean grouped() {
        return group > 0;
    }

    /// Columns that share a scale; 0 in plain formats. A row's last group may be shorter.
    public int group() {
        return group;
    }

    /// Scales of a row: `⌈cols / group⌉`; 0 in plain formats.
    public int groups(int cols) {
        return group == 0 ? 0 : (cols + group - 1) / group;
    }

    /// Panels that so many rows need.
    public static int panels(int rows) {
        return (rows + PANEL_ROWS - 1) / PANEL_ROWS;
    }

    /// Bytes of a panel, a multiple of 64. Of [#PACKED] the most, which is what a raw panel takes.
    public long panelBytes(int cols) {
        return switch (this) {
            case F32 -> F32Panel.bytes(cols);
            case BF16, PACKED -> Bf16Panel.bytes(cols);
            case INT8 -> Int8Panel.bytes(cols);
            case INT4 -> Int4Panel.bytes(cols);
            case FP8 -> Fp8Panel.bytes(cols);
        };
    }
}
