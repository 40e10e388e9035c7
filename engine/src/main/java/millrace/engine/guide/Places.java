package millrace.engine.guide;

import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/// Collects the places of a state, each once.
final class Places {
    private @Nullable Place only;
    private @Nullable Set<Place> several;

    void add(@Nullable Place place) {
        if (place == null || place.equals(only)) {
            return;
        }
        if (only == null) {
            only = place;
            return;
        }
        if (several == null) {
            several = new LinkedHashSet<>();
            several.add(only);
        }
        several.add(place);
    }

    boolean isEmpty() {
        return only == null;
    }

    List<Place> toList() {
        return several != null ? List.copyOf(several) : only != null ? List.of(only) : List.of();
    }
}
