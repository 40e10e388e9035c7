package millrace.engine.guide;

import org.jspecify.annotations.Nullable;

/// The bytes of a key as far as it was read, and of the keys that an object has; both grow without being changed.
///
/// @param last byte
/// @param before the bytes before it
record KeyText(byte last, @Nullable KeyText before, int length, int hash) {
    static KeyText of(@Nullable KeyText before, int b) {
        return before == null
                ? new KeyText((byte) b, null, 1, b + 31)
                : new KeyText((byte) b, before, before.length + 1, 31 * before.hash + b);
    }

    boolean same(KeyText other) {
        if (length != other.length || hash != other.hash) {
            return false;
        }
        KeyText a = this;
        KeyText b = other;
        while (a != null && b != null && a != b) {
            if (a.last != b.last) {
                return false;
            }
            a = a.before;
            b = b.before;
        }
        return true;
    }

    /// Keys that an object has.
    record Used(KeyText key, @Nullable Used before) {
        static boolean has(@Nullable Used used, KeyText key) {
            for (Used at = used; at != null; at = at.before) {
                if (at.key.same(key)) {
                    return true;
                }
            }
            return false;
        }
    }
}
