package millrace.engine.guide;

import org.jspecify.annotations.Nullable;

/// A value that is being read, and the values around it. Never changed, so a walk over all tokens and the sequence itself share
/// frames.
///
/// @param up what it is in; null around the document, [#OUTSIDE] where a walk does not know
/// @param depthLeft containers that may still be opened inside, one within the other
/// @param key of a key's frame the bytes so far
/// @param used of an object's frame the keys that it does not declare
record Frame(State state, @Nullable Frame up, int depthLeft, @Nullable KeyText key, KeyText.@Nullable Used used) {
    /// Around the value that a walk begins in.
    static final Frame OUTSIDE = new Frame(new State(null, java.util.List.of()), null, 0, null, null);

    /// After one more byte, or null if it may not come. Values that have ended by it are still on the stack, see [#pop].
    @Nullable Frame step(int b) {
        State next = state.next(b);
        if (next != null) {
            return new Frame(next, up, depthLeft, next.key() ? KeyText.of(key, b) : null, used);
        }
        if (state.calls()) {
            State inside = state.entered(depthLeft);
            State begun = inside == null ? null : inside.next(b);
            if (begun != null) {
                return new Frame(begun, this, depthLeft - 1, begun.key() ? KeyText.of(null, b) : null, null);
            }
        }
        // A number ends where the value around it goes on.
        if (state.complete() && up != null && up != OUTSIDE) {
            Frame around = pop();
            return around == null ? null : around.step(b);
        }
        return null;
    }

    /// The value around it after this one, which is complete; null if it may not end, since it is a key that is there already.
    @Nullable Frame pop() {
        Frame around = java.util.Objects.requireNonNull(up);
        KeyText.Used keys = around.used;
        if (state.otherKey()) {
            KeyText own = java.util.Objects.requireNonNull(key);
            if (KeyText.Used.has(keys, own)) {
                return null;
            }
            keys = new KeyText.Used(own, keys);
        }
        State after = around.state.returned(state);
        return after == null ? null : new Frame(after, around.up, around.depthLeft, around.key, keys);
    }

    /// Leaves the values that have ended; null if one may not.
    @Nullable Frame settle() {
        Frame frame = this;
        while (frame != null && frame.state.closed() && frame.up != null) {
            frame = frame.pop();
        }
        return frame;
    }

    /// Whether a walk that began in a value is in this one.
    boolean isBase() {
        return up == OUTSIDE;
    }

    /// Whether the document may end here.
    boolean complete() {
        if (up == null) {
            return state.complete();
        }
        if (!state.complete() || up.up != null) {
            return false;
        }
        Frame around = pop();
        return around != null && around.complete();
    }
}
