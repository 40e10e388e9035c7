package millrace.engine.guide;

import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// The places where a value may stand, as far as it has been read: a state of an automaton that is made as it is walked. Equal
/// sets of places are one state as long as its table lives.
///
/// Used by one thread.
final class State {
    private static final State NOWHERE = new State(null, List.of());

    private final List<Place> places;
    private final boolean complete;
    private final boolean closed;
    private final boolean calls;
    private final boolean key;
    private final boolean otherKey;

    private final @Nullable States table;

    /// By the upper, then by the lower half of a byte: most states go on with few.
    private final @Nullable State[] @Nullable [] next = new State[16][];

    private final Map<Integer, State> entered = new HashMap<>();
    private final Map<State, State> returned = new IdentityHashMap<>();
    private @Nullable State near;

    State(@Nullable States table, List<Place> places) {
        this.table = table;
        this.places = places;
        boolean anyComplete = false;
        boolean allClosed = true;
        boolean anyCalls = false;
        boolean anyKey = false;
        boolean anyOther = false;
        for (Place place : places) {
            anyComplete |= place.complete();
            allClosed &= place.closed();
            anyCalls |= place.calls();
            if (place instanceof KeyRule.At at) {
                anyKey = true;
                anyOther |= at.isOther();
            }
        }
        complete = anyComplete;
        closed = allClosed;
        calls = anyCalls;
        key = anyKey;
        otherKey = anyOther;
    }

    /// Whether some place is complete: the value may end here.
    boolean complete() {
        return complete;
    }

    /// Whether the value has ended.
    boolean closed() {
        return closed;
    }

    /// Whether a value or a key may begin inside.
    boolean calls() {
        return calls;
    }

    /// Whether it stands in a key.
    boolean key() {
        return key;
    }

    /// Whether some place has read a key that its object does not declare.
    boolean otherKey() {
        return otherKey;
    }

    /// The only place, if it is in a string between two characters; null else.
    StringRule.@Nullable At string() {
        return places.size() == 1 && places.getFirst() instanceof StringRule.At at && at.lexer() == StringLexer.BODY && !at.rule().guarded() ? at : null;
    }

    /// The state after the end of that string.
    State ended(StringRule.At string) {
        return table().start(string.ended());
    }

    /// Whether it is in a key, between two characters, and any may follow.
    boolean openKey() {
        return places.size() == 1 && places.getFirst() instanceof KeyRule.At at && at.open();
    }

    /// Whether a token that is this marker may come, if its bytes may.
    boolean marked(byte[] marker) {
        return places.stream().anyMatch(place -> place.marks(marker));
    }

    /// Whether it stands in nothing else.
    boolean outermost() {
        return places.stream().allMatch(place -> place.rule() instanceof Whole);
    }

    private States table() {
        return java.util.Objects.requireNonNull(table);
    }

    /// After one more byte of its own, or null.
    @Nullable State next(int b) {
        @Nullable State @Nullable [] row = next[b >>> 4];
        if (row == null) {
            row = new State[16];
            next[b >>> 4] = row;
        }
        State known = row[b & 15];
        if (known == null) {
            Places after = new Places();
            for (Place place : places) {
                after.add(place.step(b));
            }
            known = after.isEmpty() ? NOWHERE : table().of(after);
            row[b & 15] = known;
        }
        return known == NOWHERE ? null : known;
    }

    /// What may begin here, or null if nothing may.
    @Nullable State entered(int depthLeft) {
        int depth = Math.min(depthLeft, table().horizon());
        State known = entered.get(depth);
        if (known == null) {
            Places inside = new Places();
            for (Place place : places) {
                if (place.calls()) {
                    place.enter(depth, inside::add);
                }
            }
            known = inside.isEmpty() ? NOWHERE : table().of(inside);
            entered.put(depth, known);
        }
        return known == NOWHERE ? null : known;
    }

    /// After what began here and was read up to a complete state; null if it did not begin here.
    @Nullable State returned(State child) {
        State known = returned.get(child);
        if (known == null) {
            Places after = new Places();
            for (Place place : places) {
                for (Place inside : child.places) {
                    if (inside.complete()) {
                        after.add(place.returned(inside));
                    }
                }
            }
            known = after.isEmpty() ? NOWHERE : table().of(after);
            returned.put(child, known);
        }
        return known == NOWHERE ? null : known;
    }

    /// A state that goes on alike for the next `reach` bytes.
    State near(int reach) {
        if (near == null) {
            Places kept = new Places();
            for (Place place : places) {
                kept.add(place.near(reach));
            }
            near = table().of(kept);
        }
        return near;
    }
}
