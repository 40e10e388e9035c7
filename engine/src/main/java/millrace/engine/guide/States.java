package millrace.engine.guide;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// The states of one schema that were met so far. Those that have nothing of the schema are in a table that all schemas share.
///
/// Used by one thread.
final class States {
    /// States of a table; past it the table begins anew. What was handed out stays valid.
    private static final int MAX_STATES = 4_096;

    /// Places of a state: alternatives that cannot be told apart yet. A document that leads to more is given up.
    static final int MAX_PLACES = 512;

    private final Map<List<Place>, State> states = new HashMap<>();
    private final @Nullable States shared;
    private final int horizon;

    private States(@Nullable States shared, int horizon) {
        this.shared = shared;
        this.horizon = horizon;
    }

    /// The table of what belongs to no schema.
    static States shared() {
        return new States(null, 1 + AnyJson.need());
    }

    /// @param need of the schema, see [Guide#need]
    static States of(States shared, int need) {
        return new States(shared, 1 + need);
    }

    /// A depth that cuts nothing off, where more is left than this.
    int horizon() {
        return horizon;
    }

    State of(Places places) {
        List<Place> list = places.toList();
        if (shared != null && list.stream().allMatch(place -> place.rule().shared())) {
            return shared.of(list);
        }
        return of(list);
    }

    State start(Place place) {
        Places places = new Places();
        places.add(place);
        return of(places);
    }

    private State of(List<Place> places) {
        if (places.size() > MAX_PLACES) {
            throw new GuideLimitException(MAX_PLACES);
        }
        if (states.size() >= MAX_STATES) {
            states.clear();
        }
        return states.computeIfAbsent(places, list -> new State(this, list));
    }
}
