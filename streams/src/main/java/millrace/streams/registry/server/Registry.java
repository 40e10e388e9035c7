package millrace.streams.registry.server;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.avro.Schema;
import org.jspecify.annotations.Nullable;

/// The rules of a registry: what may be registered, found and deleted. Every change is a record in the store first.
final class Registry {
    private static final int MAX_REFERENCES = 64;
    private static final Set<String> MODES = Set.of("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT");

    private final RegistryStore store;
    private final RegistryState state;

    Registry(RegistryStore store, RegistryState state) {
        this.store = store;
        this.state = state;
    }

    RegistryState state() {
        return state;
    }

    /// A schema as it came in a request body, parsed; `text` is its one form that is compared and kept.
    record Candidate(String text, Schema schema, List<StoredSchema.Reference> references) {}

    Candidate candidate(JsonNode body) {
        String type = body.path("schemaType").asText("AVRO");
        if (!type.equals("AVRO")) {
            throw new RegistryError(422, 42201, "Invalid schema type " + type + "; expected AVRO");
        }
        JsonNode schema = body.path("schema");
        if (!schema.isTextual() || schema.asText().isBlank()) {
            throw new RegistryError(422, 42201, "Empty schema; expected the field \"schema\" with the schema as text");
        }
        List<StoredSchema.Reference> references = RegistryRecords.references(body);
        Schema parsed = parse(schema.asText(), references);
        return new Candidate(parsed.toString(), parsed, references);
    }

    private Schema parse(String text, List<StoredSchema.Reference> references) {
        List<String> texts = new ArrayList<>();
        collect(references, texts, new HashSet<>());
        try {
            return SchemaTexts.parse(text, texts);
        } catch (IOException e) {
            throw new RegistryError(422, 42201, "Invalid schema, details: " + e.getMessage());
        }
    }

    private void collect(List<StoredSchema.Reference> references, List<String> texts, Set<String> seen) {
        for (StoredSchema.Reference r : references) {
            if (!seen.add(r.subject() + "/" + r.version()) || seen.size() > MAX_REFERENCES) {
                continue;
            }
            StoredSchema target = state.version(r.subject(), r.version());
            if (target == null) {
                throw new RegistryError(422, 42201, "Invalid schema, details: no schema reference found for subject \""
                        + r.subject() + "\" and version " + r.version());
            }
            collect(target.references(), texts, seen);
            texts.add(target.schema());
        }
    }

    /// Id of the schema in the subject; a new version of it when it is not there yet.
    int register(String subject, Candidate candidate, int wantedId, int wantedVersion) {
        List<StoredSchema> present = state.versions(subject, false);
        String mode = effectiveMode(subject);
        if (mode.startsWith("READONLY")) {
            throw new RegistryError(422, 42205, "Subject " + subject + " is in read-only mode");
        }
        for (StoredSchema s : present) {
            if (s.hasText(candidate.text(), candidate.references()) && (wantedId <= 0 || wantedId == s.id())) {
                return s.id();
            }
        }
        if (mode.equals("IMPORT")) {
            return importSchema(subject, candidate, wantedId, wantedVersion);
        }
        if (wantedId > 0) {
            throw new RegistryError(422, 42205, "Subject " + subject + " is not in import mode");
        }
        List<String> violations = effectiveLevel(subject).violations(candidate.schema(), parsed(present));
        if (!violations.isEmpty()) {
            throw new RegistryError(409, 409, "Schema being registered is incompatible with an earlier schema for"
                    + " subject \"" + subject + "\", details: " + violations);
        }
        return append(subject, candidate, idFor(candidate), nextVersion(subject));
    }

    private int importSchema(String subject, Candidate candidate, int wantedId, int wantedVersion) {
        int id = wantedId > 0 ? wantedId : idFor(candidate);
        StoredSchema holder = state.byId(id);
        if (holder != null && !holder.hasText(candidate.text(), candidate.references())) {
            throw new RegistryError(422, 42205, "Overwrite new schema with id " + id + " is not permitted.");
        }
        return append(subject, candidate, id, wantedVersion > 0 ? wantedVersion : nextVersion(subject));
    }

    private int append(String subject, Candidate candidate, int id, int version) {
        StoredSchema schema =
                new StoredSchema(subject, version, id, candidate.text(), candidate.references(), false);
        write(RegistryRecords.schemaKey(subject, version), RegistryRecords.value(schema));
        return id;
    }

    private int idFor(Candidate candidate) {
        int known = state.idOf(candidate.text(), candidate.references());
        return known > 0 ? known : state.maxId() + 1;
    }

    private int nextVersion(String subject) {
        List<StoredSchema> all = state.versions(subject, true);
        return all.isEmpty() ? 1 : all.get(all.size() - 1).version() + 1;
    }

    /// The version of the subject that has this schema.
    StoredSchema lookup(String subject, Candidate candidate, boolean deleted) {
        List<StoredSchema> versions = state.versions(subject, deleted);
        if (versions.isEmpty()) {
            throw RegistryError.subjectNotFound(subject);
        }
        return versions.stream()
                .filter(s -> s.hasText(candidate.text(), candidate.references()))
                .reduce((_, last) -> last)
                .orElseThrow(() -> RegistryError.schemaNotFound(""));
    }

    /// A version by number, `latest` or `-1`.
    StoredSchema version(String subject, String version, boolean deleted) {
        int number = versionNumber(version);
        List<StoredSchema> versions = state.versions(subject, deleted);
        if (versions.isEmpty()) {
            throw RegistryError.subjectNotFound(subject);
        }
        if (number < 0) {
            return versions.get(versions.size() - 1);
        }
        return versions.stream()
                .filter(s -> s.version() == number)
                .findFirst()
                .orElseThrow(() -> RegistryError.versionNotFound(version));
    }

    private static int versionNumber(String version) {
        if (version.equals("latest") || version.equals("-1")) {
            return -1;
        }
        try {
            int number = Integer.parseInt(version);
            if (number > 0) {
                return number;
            }
        } catch (NumberFormatException e) {
            // Refused below, as a number out of range is.
        }
        throw new RegistryError(422, 42202, "The specified version '" + version + "' is not a valid version id. Allowed"
                + " values are between [1, 2^31-1] and the string \"latest\"");
    }

    List<Integer> deleteSubject(String subject, boolean permanent) {
        List<StoredSchema> all = state.versions(subject, true);
        if (all.isEmpty()) {
            throw RegistryError.subjectNotFound(subject);
        }
        List<StoredSchema> live = state.versions(subject, false);
        if (permanent) {
            if (!live.isEmpty()) {
                throw new RegistryError(404, 40405, "Subject '" + subject
                        + "' was not deleted first before being permanently deleted");
            }
            all.forEach(s -> write(RegistryRecords.schemaKey(subject, s.version()), null));
            write(RegistryRecords.key("DELETE_SUBJECT", subject), null);
            return all.stream().map(StoredSchema::version).toList();
        }
        if (live.isEmpty()) {
            throw new RegistryError(404, 40404, "Subject '" + subject
                    + "' was soft deleted. Set permanent=true to delete permanently");
        }
        live.forEach(this::requireUnreferenced);
        String value = RegistryRecords.JSON.createObjectNode()
                .put("subject", subject)
                .put("version", all.get(all.size() - 1).version())
                .toString();
        write(RegistryRecords.key("DELETE_SUBJECT", subject), value);
        return live.stream().map(StoredSchema::version).toList();
    }

    int deleteVersion(String subject, String version, boolean permanent) {
        StoredSchema found = version(subject, version, true);
        if (permanent) {
            if (!found.deleted()) {
                throw new RegistryError(404, 40407, "Subject '" + subject + "' Version " + found.version()
                        + " was not deleted first before being permanently deleted");
            }
            write(RegistryRecords.schemaKey(subject, found.version()), null);
            return found.version();
        }
        if (found.deleted()) {
            throw new RegistryError(404, 40406, "Subject '" + subject + "' Version " + found.version()
                    + " was soft deleted. Set permanent=true to delete permanently");
        }
        requireUnreferenced(found);
        write(RegistryRecords.schemaKey(subject, found.version()), RegistryRecords.value(found.asDeleted()));
        return found.version();
    }

    private void requireUnreferenced(StoredSchema schema) {
        if (!state.referencedBy(schema.subject(), schema.version()).isEmpty()) {
            throw new RegistryError(422, 42206, "One or more references exist to the schema {subject="
                    + schema.subject() + ",version=" + schema.version() + "}");
        }
    }

    /// Why the candidate may not follow one version, or (with a null version) those that its level asks for.
    List<String> violations(String subject, @Nullable String version, Candidate candidate) {
        List<StoredSchema> earlier =
                version == null ? state.versions(subject, false) : List.of(version(subject, version, false));
        return effectiveLevel(subject).violations(candidate.schema(), parsed(earlier));
    }

    private List<Schema> parsed(List<StoredSchema> schemas) {
        return schemas.stream().map(s -> parse(s.schema(), s.references())).toList();
    }

    private Compatibility effectiveLevel(String subject) {
        Compatibility level = state.level(subject);
        return level == null ? state.globalLevel() : level;
    }

    private String effectiveMode(String subject) {
        String mode = state.mode(subject);
        return mode == null ? state.globalMode() : mode;
    }

    void setLevel(@Nullable String subject, Compatibility level) {
        String value = RegistryRecords.JSON.createObjectNode()
                .put("compatibilityLevel", level.name())
                .toString();
        write(RegistryRecords.key("CONFIG", subject), value);
    }

    void clearLevel(@Nullable String subject) {
        write(RegistryRecords.key("CONFIG", subject), null);
    }

    void setMode(@Nullable String subject, String mode) {
        if (!MODES.contains(mode)) {
            throw new RegistryError(422, 42204,
                    "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE and IMPORT");
        }
        write(RegistryRecords.key("MODE", subject),
                RegistryRecords.JSON.createObjectNode().put("mode", mode).toString());
    }

    void clearMode(@Nullable String subject) {
        write(RegistryRecords.key("MODE", subject), null);
    }

    private void write(String key, @Nullable String value) {
        store.append(key, value);
        try {
            state.apply(key, value);
        } catch (IOException e) {
            throw new IllegalStateException("registry: its own record cannot be read: " + key, e);
        }
    }
}
