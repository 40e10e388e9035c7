package millrace.engine.guide;

import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/// A JSON array or object: how deep the values in it are, and have to be.
abstract sealed class ContainerRule implements Rule permits ArrayRule, ObjectRule {
    private final boolean shared;
    private int depth = NEVER;
    private int need;

    ContainerRule(boolean shared) {
        this.shared = shared;
    }

    /// The depth of the flattest contents as far as depths are known, or [#NEVER].
    abstract int depthInside();

    /// The shapes that values in it may have.
    abstract List<Shape> inside();

    static List<Shape> with(List<Shape> declared, @Nullable Shape others) {
        return others == null ? declared : Stream.concat(declared.stream(), Stream.of(others)).toList();
    }

    @Override
    public final int depth() {
        return depth;
    }

    /// One round of finding the least depth.
    ///
    /// @return whether it changed
    final boolean deepen() {
        int now = Math.min(NEVER, depthInside() + 1);
        boolean changed = now != depth;
        depth = now;
        return changed;
    }

    /// Once depths are known: above which depth nothing inside is cut off.
    final void settle() {
        for (Shape shape : inside()) {
            need = Math.max(need, shape.need());
        }
    }

    final int need() {
        return need;
    }

    @Override
    public final boolean shared() {
        return shared;
    }
}
