package millrace.engine.kernel;

import org.jspecify.annotations.Nullable;

/// How a number is stored: the element types of the safetensors format, by its own names.
///
/// A name here only says that a file may hold it. What the engine computes with is checked where the tensor is used.
public enum DType {
    F4(4),
    F6_E2M3(6),
    F6_E3M2(6),
    BOOL(8),
    U8(8),
    I8(8),
    F8_E5M2(8),
    F8_E4M3(8),
    F8_E8M0(8),
    F8_E4M3FNUZ(8),
    F8_E5M2FNUZ(8),
    I16(16),
    U16(16),
    F16(16),
    BF16(16),
    I32(32),
    U32(32),
    F32(32),
    C64(64),
    F64(64),
    I64(64),
    U64(64);

    private final int bits;

    DType(int bits) {
        this.bits = bits;
    }

    /// Bits of one element; below 8 several elements share a byte.
    public int bits() {
        return bits;
    }

    /// Whole bytes of one element.
    ///
    /// @throws IllegalStateException if an element is smaller than a byte
    public int bytes() {
        if (bits < 8) {
            throw new IllegalStateException(name() + " has " + bits + " bits: its elements are not whole bytes");
        }
        return bits / 8;
    }

    /// The type of that name, or null; names are case-sensitive as in the format.
    public static @Nullable DType named(String name) {
        for (DType type : values()) {
            if (type.name().equals(name)) {
                return type;
            }
        }
        return null;
    }
}
