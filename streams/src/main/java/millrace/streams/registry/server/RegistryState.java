package millrace.streams.registry.server;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Set;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/// What the records of the `_schemas` topic add up to. Not safe for use by many threads.
final class RegistryState {
    private final NavigableMap<String, NavigableMap<Integer, StoredSchema>> subjects = new TreeMap<>();
    private final Map<Integer, StoredSchema> byId = new HashMap<>();
    private final Map<String, Compatibility> levels = new HashMap<>();
    private final Map<String, String> modes = new HashMap<>();
    private Compatibility globalLevel = Compatibility.BACKWARD;
    private String globalMode = "READWRITE";
    private int maxId;

    /// Takes one record into account, at a restart as right after it was written. Records of a kind that is not known
    /// are passed over: a newer registry may have written them.
    void apply(String key, @Nullable String value) throws IOException {
        JsonNode k = RegistryRecords.JSON.readTree(key);
        JsonNode v = value == null ? null : RegistryRecords.JSON.readTree(value);
        String subject = k.path("subject").isTextual() ? k.path("subject").asText() : "";
        switch (k.path("keytype").asText()) {
            case "SCHEMA" -> applySchema(subject, k.path("version").asInt(), v);
            case "CONFIG" -> applyLevel(subject, v);
            case "MODE" -> applyMode(subject, v);
            case "DELETE_SUBJECT" -> {
                if (v != null) {
                    softDelete(subject, v.path("version").asInt());
                }
            }
            case "CLEAR_SUBJECT" -> {
                if (v != null) {
                    clear(subject);
                }
            }
            default -> {}
        }
    }

    private void applySchema(String subject, int version, @Nullable JsonNode value) {
        NavigableMap<Integer, StoredSchema> versions = subjects.computeIfAbsent(subject, _ -> new TreeMap<>());
        if (value == null) {
            StoredSchema gone = versions.remove(version);
            if (versions.isEmpty()) {
                subjects.remove(subject);
            }
            if (gone != null && holders(gone.id(), true).isEmpty()) {
                byId.remove(gone.id());
            }
            return;
        }
        StoredSchema schema = RegistryRecords.schema(value);
        versions.put(version, schema);
        byId.putIfAbsent(schema.id(), schema);
        maxId = Math.max(maxId, schema.id());
    }

    private void applyLevel(String subject, @Nullable JsonNode value) {
        Compatibility level =
                value == null ? null : Compatibility.of(value.path("compatibilityLevel").asText("BACKWARD"));
        if (subject.isEmpty()) {
            globalLevel = level == null ? Compatibility.BACKWARD : level;
        } else if (level == null) {
            levels.remove(subject);
        } else {
            levels.put(subject, level);
        }
    }

    private void applyMode(String subject, @Nullable JsonNode value) {
        String mode = value == null ? null : value.path("mode").asText("READWRITE");
        if (subject.isEmpty()) {
            globalMode = mode == null ? "READWRITE" : mode;
        } else if (mode == null) {
            modes.remove(subject);
        } else {
            modes.put(subject, mode);
        }
    }

    private void softDelete(String subject, int upTo) {
        var versions = subjects.getOrDefault(subject, new TreeMap<>());
        for (StoredSchema s : List.copyOf(versions.headMap(upTo, true).values())) {
            versions.put(s.version(), s.asDeleted());
        }
    }

    private void clear(String subject) {
        for (int version : List.copyOf(subjects.getOrDefault(subject, new TreeMap<>()).keySet())) {
            applySchema(subject, version, null);
        }
    }

    Set<String> subjects() {
        return subjects.keySet();
    }

    /// Versions of a subject, oldest first; soft-deleted ones only when asked for. Empty when it is not known.
    List<StoredSchema> versions(String subject, boolean deleted) {
        return subjects.getOrDefault(subject, new TreeMap<>()).values().stream()
                .filter(s -> deleted || !s.deleted())
                .toList();
    }

    @Nullable StoredSchema version(String subject, int version) {
        return subjects.getOrDefault(subject, new TreeMap<>()).get(version);
    }

    @Nullable StoredSchema byId(int id) {
        return byId.get(id);
    }

    /// Versions of any subject that have this id.
    List<StoredSchema> holders(int id, boolean deleted) {
        List<StoredSchema> holders = new ArrayList<>();
        for (String subject : subjects.keySet()) {
            versions(subject, deleted).stream().filter(s -> s.id() == id).forEach(holders::add);
        }
        return holders;
    }

    /// Versions of any subject that refer to this one.
    List<StoredSchema> referencedBy(String subject, int version) {
        List<StoredSchema> found = new ArrayList<>();
        for (String other : subjects.keySet()) {
            for (StoredSchema s : versions(other, false)) {
                if (s.references().stream().anyMatch(r -> r.subject().equals(subject) && r.version() == version)) {
                    found.add(s);
                }
            }
        }
        return found;
    }

    /// Id of a schema with this text in whatever subject, or 0.
    int idOf(String text, List<StoredSchema.Reference> references) {
        return byId.values().stream()
                .filter(s -> s.hasText(text, references))
                .mapToInt(StoredSchema::id)
                .min()
                .orElse(0);
    }

    int maxId() {
        return maxId;
    }

    @Nullable Compatibility level(String subject) {
        return levels.get(subject);
    }

    Compatibility globalLevel() {
        return globalLevel;
    }

    @Nullable String mode(String subject) {
        return modes.get(subject);
    }

    String globalMode() {
        return globalMode;
    }
}
