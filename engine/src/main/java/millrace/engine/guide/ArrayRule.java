package millrace.engine.guide;

import java.util.List;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/// A JSON array: its first items each of a shape of their own, the others of one.
final class ArrayRule extends ContainerRule {
    static final int UNBOUNDED = -1;

    final List<Shape> first;

    /// What items after the first are like; null if there are none.
    final @Nullable Shape others;

    final int minItems;

    /// Most items, or [#UNBOUNDED].
    final int maxItems;

    ArrayRule(List<Shape> first, @Nullable Shape others, int minItems, int maxItems, boolean shared) {
        super(shared);
        this.first = List.copyOf(first);
        this.others = others;
        this.minItems = minItems;
        boolean shorter = others == null && (maxItems == UNBOUNDED || maxItems > first.size());
        this.maxItems = shorter ? first.size() : maxItems;
    }

    @Override
    int depthInside() {
        int inside = maxItems != UNBOUNDED && minItems > maxItems ? NEVER : 0;
        for (int i = 0; i < Math.min(minItems, first.size() + 1); i++) {
            Shape item = item(i);
            inside = Math.max(inside, item == null ? NEVER : item.depth());
        }
        return inside;
    }

    @Override
    List<Shape> inside() {
        return with(first, others);
    }

    @Override
    public Place start(int depthLeft) {
        return new At(this, Phase.START, 0, 0, minItems, maxItems, Math.min(depthLeft - 1, need()));
    }

    @Nullable Shape item(int index) {
        return index < first.size() ? first.get(index) : others;
    }

    private enum Phase {
        START,
        OPEN,
        ITEM,
        AFTER,
        DONE
    }

    /// @param space run of [Space]
    /// @param index of the next item, at most the number of first ones
    /// @param minLeft items that have to come
    /// @param maxLeft items that may come, or [#UNBOUNDED]
    /// @param room depth that is left inside, as far as it matters
    record At(ArrayRule rule, Phase phase, int space, int index, int minLeft, int maxLeft, int room) implements Place {
        @Override
        public @Nullable Place step(int b) {
            if (phase == Phase.START) {
                return b == '[' ? at(Phase.OPEN) : null;
            }
            if (phase == Phase.DONE) {
                return null;
            }
            int run = Space.step(space, b);
            if (run >= 0) {
                return new At(rule, phase, run, index, minLeft, maxLeft, room);
            }
            if (phase == Phase.ITEM) {
                return null;
            }
            if (b == ']' && minLeft == 0) {
                return new At(rule, Phase.DONE, 0, 0, 0, 0, 0);
            }
            return b == ',' && phase == Phase.AFTER && more() ? at(Phase.ITEM) : null;
        }

        private boolean more() {
            Shape item = rule.item(index);
            return maxLeft != 0 && item != null && item.depth() <= room;
        }

        private Place at(Phase next) {
            return new At(rule, next, 0, index, minLeft, maxLeft, room);
        }

        @Override
        public boolean calls() {
            return phase == Phase.ITEM || phase == Phase.OPEN && more();
        }

        @Override
        public void enter(int depthLeft, Consumer<Place> out) {
            for (Rule item : item().rules()) {
                if (item.depth() <= depthLeft) {
                    out.accept(item.start(depthLeft));
                }
            }
        }

        private Shape item() {
            return java.util.Objects.requireNonNull(rule.item(index));
        }

        @Override
        public @Nullable Place returned(Place child) {
            if (!calls() || !item().allows(child.rule())) {
                return null;
            }
            return new At(
                    rule,
                    Phase.AFTER,
                    0,
                    Math.min(index + 1, rule.first.size()),
                    Math.max(0, minLeft - 1),
                    maxLeft == UNBOUNDED ? UNBOUNDED : maxLeft - 1,
                    room);
        }

        @Override
        public Place near(int reach) {
            int min = Math.min(minLeft, reach);
            int max = maxLeft > reach ? UNBOUNDED : maxLeft;
            return min == minLeft && max == maxLeft ? this : new At(rule, phase, space, index, min, max, room);
        }

        @Override
        public boolean complete() {
            return phase == Phase.DONE;
        }

        @Override
        public boolean closed() {
            return phase == Phase.DONE;
        }
    }
}
