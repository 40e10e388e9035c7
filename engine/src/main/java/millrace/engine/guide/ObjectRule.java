package millrace.engine.guide;

import java.util.List;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/// A JSON object: declared properties in their order, some of them optional, then others if it is open. No key comes twice.
final class ObjectRule extends ContainerRule {
    final List<String> names;
    final List<Shape> values;
    final boolean[] required;

    /// What other properties are like; null if there are none.
    final @Nullable Shape others;

    /// What the schema allows other properties to be by its letter; null if it forbids them. An object that declares properties
    /// and says nothing of others gets none, though it could.
    final @Nullable Shape othersByTheLetter;

    private final KeyRule keys;

    /// For each index the first required property from there on, or the number of properties.
    private final int[] nextRequired;

    ObjectRule(
            List<String> names,
            List<Shape> values,
            boolean[] required,
            @Nullable Shape others,
            @Nullable Shape othersByTheLetter,
            boolean shared,
            boolean guarded) {
        super(shared);
        this.names = List.copyOf(names);
        this.values = List.copyOf(values);
        this.required = required.clone();
        this.others = others;
        this.othersByTheLetter = othersByTheLetter;
        keys = new KeyRule(this, names, guarded);
        nextRequired = new int[names.size() + 1];
        nextRequired[names.size()] = names.size();
        for (int i = names.size() - 1; i >= 0; i--) {
            nextRequired[i] = required[i] ? i : nextRequired[i + 1];
        }
    }

    @Override
    int depthInside() {
        int inside = 0;
        for (int i = 0; i < required.length; i++) {
            if (required[i]) {
                inside = Math.max(inside, values.get(i).depth());
            }
        }
        return inside;
    }

    @Override
    List<Shape> inside() {
        return with(values, others);
    }

    @Override
    public Place start(int depthLeft) {
        return new At(this, Phase.START, 0, 0, Math.min(depthLeft - 1, need()));
    }

    /// Whether property `index` may be the next after those before `from`.
    boolean offers(int index, int from, int room) {
        return index >= from && index <= nextRequired[from] && values.get(index).depth() <= room;
    }

    boolean offersOther(int from, int room) {
        return others != null && !requires(from) && others.depth() <= room;
    }

    boolean requires(int from) {
        return nextRequired[from] < names.size();
    }

    private boolean offersAny(int from, int room) {
        if (offersOther(from, room)) {
            return true;
        }
        for (int i = from; i < names.size() && i <= nextRequired[from]; i++) {
            if (offers(i, from, room)) {
                return true;
            }
        }
        return false;
    }

    private Shape value(int index) {
        return index < names.size() ? values.get(index) : java.util.Objects.requireNonNull(others);
    }

    private enum Phase {
        START,
        OPEN,
        KEY,
        COLON,
        VALUE,
        AFTER,
        DONE
    }

    /// @param space run of [Space]
    /// @param index behind a key its property, the number of properties for another one; else the first that may come
    /// @param room depth that is left inside, as far as it matters
    record At(ObjectRule rule, Phase phase, int space, int index, int room) implements Place {
        @Override
        public @Nullable Place step(int b) {
            if (phase == Phase.START) {
                return b == '{' ? at(Phase.OPEN, index) : null;
            }
            if (phase == Phase.DONE) {
                return null;
            }
            int run = Space.step(space, b);
            if (run >= 0) {
                return new At(rule, phase, run, index, room);
            }
            return switch (phase) {
                case COLON -> b == ':' ? at(Phase.VALUE, index) : null;
                case OPEN -> b == '}' && !rule.requires(index) ? at(Phase.DONE, 0) : null;
                case AFTER -> {
                    if (b == '}' && !rule.requires(index)) {
                        yield at(Phase.DONE, 0);
                    }
                    yield b == ',' && rule.offersAny(index, room) ? at(Phase.KEY, index) : null;
                }
                case START, KEY, VALUE, DONE -> null;
            };
        }

        private Place at(Phase next, int at) {
            return new At(rule, next, 0, at, room);
        }

        @Override
        public boolean calls() {
            return phase == Phase.VALUE || phase == Phase.KEY || phase == Phase.OPEN && rule.offersAny(index, room);
        }

        @Override
        public void enter(int depthLeft, Consumer<Place> out) {
            if (phase != Phase.VALUE) {
                out.accept(rule.keys.start(index, room));
                return;
            }
            for (Rule value : rule.value(index).rules()) {
                if (value.depth() <= depthLeft) {
                    out.accept(value.start(depthLeft));
                }
            }
        }

        @Override
        public @Nullable Place returned(Place child) {
            if (phase == Phase.VALUE) {
                boolean mine = rule.value(index).allows(child.rule());
                return mine ? at(Phase.AFTER, Math.min(index + 1, rule.names.size())) : null;
            }
            boolean key = phase == Phase.KEY || phase == Phase.OPEN;
            if (!key || !(child instanceof KeyRule.At at) || at.rule() != rule.keys || at.from() != index) {
                return null;
            }
            return at(Phase.COLON, at.property() == KeyRule.OTHER ? rule.names.size() : at.property());
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
