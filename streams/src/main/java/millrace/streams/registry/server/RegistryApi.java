package millrace.streams.registry.server;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;

/// Confluent's REST interface of a schema registry as a function of method, path and body. Safe for many threads: one
/// request is answered at a time.
public final class RegistryApi {
    /// What `/v1/metadata/version` says: the version of Confluent's interface that this one follows.
    private static final String VERSION = "8.0.0";

    private final ReentrantLock lock = new ReentrantLock();
    private final RegistryState state = new RegistryState();
    private final Registry registry;
    private final String clusterId;

    /// A registry whose records go to `store`; [#replay] what the store already has before the first request.
    public RegistryApi(RegistryStore store, String clusterId) {
        this.registry = new Registry(store, state);
        this.clusterId = clusterId;
    }

    /// A registry that forgets everything with the process.
    public static RegistryApi inMemory() {
        return new RegistryApi((_, _) -> {}, "memory");
    }

    /// HTTP status and JSON body.
    public record Answer(int status, byte[] body) {
        public static Answer error(int status, int code, String message) {
            ObjectNode body =
                    RegistryRecords.JSON.createObjectNode().put("error_code", code).put("message", message);
            return new Answer(status, body.toString().getBytes(StandardCharsets.UTF_8));
        }
    }

    /// Takes one record of the store into account.
    ///
    /// @throws IOException when it is not JSON
    public void replay(String key, @Nullable String value) throws IOException {
        lock.lock();
        try {
            state.apply(key, value);
        } finally {
            lock.unlock();
        }
    }

    /// Answers one request. `path` and `query` are as in the request line, percent-encoded.
    public Answer handle(String method, String path, @Nullable String query, byte[] body) {
        lock.lock();
        try {
            JsonNode answer = route(new Request(method, segments(path), parameters(query), body));
            return new Answer(200, RegistryRecords.JSON.writeValueAsBytes(answer));
        } catch (RegistryError e) {
            return Answer.error(e.status(), e.code(), e.getMessage());
        } catch (IllegalArgumentException e) {
            return Answer.error(400, 400, "The request cannot be read: " + e.getMessage());
        } catch (IOException e) {
            return Answer.error(500, 50001, "The answer cannot be written");
        } finally {
            lock.unlock();
        }
    }

    private record Request(String method, List<String> path, Map<String, String> query, byte[] body) {
        boolean flag(String name) {
            return "true".equalsIgnoreCase(query.get(name));
        }

        int size() {
            return path.size();
        }

        String at(int index) {
            return index < path.size() ? path.get(index) : "";
        }

        boolean is(String wanted) {
            return method.equals(wanted);
        }

        RegistryError noSuchMethod() {
            return new RegistryError(405, 405, "HTTP 405 Method Not Allowed");
        }

        JsonNode json() {
            JsonNode node;
            try {
                node = RegistryRecords.JSON.readTree(body);
            } catch (IOException e) {
                throw new RegistryError(400, 400, "The request body is not JSON");
            }
            if (node == null || !node.isObject()) {
                throw new RegistryError(400, 400, "The request body is not a JSON object");
            }
            return node;
        }
    }

    private static RegistryError noSuchPath() {
        return new RegistryError(404, 404, "HTTP 404 Not Found");
    }

    private JsonNode route(Request r) {
        return switch (r.at(0)) {
            case "" -> object();
            case "subjects" -> r.size() == 1 ? subjects(r) : subject(r, r.at(1));
            case "schemas" -> schemas(r);
            case "config" -> config(r);
            case "mode" -> mode(r);
            case "compatibility" -> compatibility(r);
            case "contexts" -> array(List.of("."));
            case "v1" -> metadata(r);
            default -> throw noSuchPath();
        };
    }

    private JsonNode subjects(Request r) {
        requireMethod(r, "GET");
        String prefix = r.query.getOrDefault("subjectPrefix", "");
        List<String> names = state.subjects().stream()
                .filter(s -> s.startsWith(prefix) && !visible(r, s).isEmpty())
                .toList();
        return array(names);
    }

    private List<StoredSchema> visible(Request r, String subject) {
        if (r.flag("deletedOnly")) {
            return state.versions(subject, true).stream().filter(StoredSchema::deleted).toList();
        }
        return state.versions(subject, r.flag("deleted"));
    }

    private JsonNode subject(Request r, String subject) {
        if (r.size() == 2) {
            return switch (r.method) {
                case "POST" -> entry(registry.lookup(subject, registry.candidate(r.json()), r.flag("deleted")));
                case "DELETE" -> array(registry.deleteSubject(subject, r.flag("permanent")));
                default -> throw r.noSuchMethod();
            };
        }
        if (!r.at(2).equals("versions")) {
            throw noSuchPath();
        }
        if (r.size() == 3) {
            return switch (r.method) {
                case "GET" -> versionNumbers(r, subject);
                case "POST" -> register(r, subject);
                default -> throw r.noSuchMethod();
            };
        }
        return version(r, subject, r.at(3));
    }

    private JsonNode versionNumbers(Request r, String subject) {
        List<StoredSchema> versions = visible(r, subject);
        if (versions.isEmpty()) {
            throw RegistryError.subjectNotFound(subject);
        }
        return array(versions.stream().map(StoredSchema::version).toList());
    }

    private JsonNode register(Request r, String subject) {
        JsonNode body = r.json();
        int id = registry.register(
                subject, registry.candidate(body), body.path("id").asInt(0), body.path("version").asInt(0));
        return object().put("id", id);
    }

    private JsonNode version(Request r, String subject, String version) {
        if (r.size() == 4 && r.is("DELETE")) {
            return RegistryRecords.JSON.getNodeFactory()
                    .numberNode(registry.deleteVersion(subject, version, r.flag("permanent")));
        }
        requireMethod(r, "GET");
        StoredSchema found = registry.version(subject, version, r.flag("deleted"));
        if (r.size() == 4) {
            return entry(found);
        }
        return switch (r.at(4)) {
            case "schema" -> raw(found);
            case "referencedby" ->
                array(state.referencedBy(subject, found.version()).stream().map(StoredSchema::id).distinct().toList());
            default -> throw noSuchPath();
        };
    }

    private JsonNode schemas(Request r) {
        requireMethod(r, "GET");
        if (r.at(1).equals("types") && r.size() == 2) {
            return array(List.of("AVRO"));
        }
        if (r.at(1).equals("guids") && r.size() >= 3) {
            // Ids are what this registry gives out; it knows no GUID.
            throw RegistryError.schemaNotFound(r.at(2));
        }
        if (!r.at(1).equals("ids") || r.size() < 3) {
            throw noSuchPath();
        }
        StoredSchema schema = byId(r.at(2));
        if (r.size() == 3) {
            ObjectNode answer = object().put("schema", schema.schema());
            RegistryRecords.putReferences(answer, schema.references());
            if (r.flag("fetchMaxId")) {
                answer.put("maxId", state.maxId());
            }
            return answer;
        }
        List<StoredSchema> holders = state.holders(schema.id(), r.flag("deleted"));
        return switch (r.at(3)) {
            case "schema" -> raw(schema);
            case "subjects" -> array(holders.stream().map(StoredSchema::subject).distinct().toList());
            case "versions" -> {
                ArrayNode versions = RegistryRecords.JSON.createArrayNode();
                holders.forEach(s -> versions.addObject().put("subject", s.subject()).put("version", s.version()));
                yield versions;
            }
            default -> throw noSuchPath();
        };
    }

    private StoredSchema byId(String id) {
        StoredSchema schema;
        try {
            schema = state.byId(Integer.parseInt(id));
        } catch (NumberFormatException e) {
            throw noSuchPath();
        }
        if (schema == null) {
            throw RegistryError.schemaNotFound(id);
        }
        return schema;
    }

    private JsonNode config(Request r) {
        String subject = r.size() > 1 ? r.at(1) : null;
        switch (r.method) {
            case "PUT" -> {
                Compatibility level = Compatibility.of(r.json().path("compatibility").asText(""));
                registry.setLevel(subject, level);
                return object().put("compatibility", level.name());
            }
            case "GET", "DELETE" -> {
                boolean lenient = r.is("GET") && r.flag("defaultToGlobal");
                Compatibility level = subject == null ? state.globalLevel() : state.level(subject);
                if (level == null && !lenient) {
                    throw new RegistryError(404, 40408, "Subject '" + subject
                            + "' does not have subject-level compatibility configured");
                }
                if (r.is("DELETE")) {
                    registry.clearLevel(subject);
                }
                return object().put("compatibilityLevel", (level == null ? state.globalLevel() : level).name());
            }
            default -> throw r.noSuchMethod();
        }
    }

    private JsonNode mode(Request r) {
        String subject = r.size() > 1 ? r.at(1) : null;
        switch (r.method) {
            case "PUT" -> {
                String mode = r.json().path("mode").asText("");
                registry.setMode(subject, mode);
                return object().put("mode", mode);
            }
            case "GET", "DELETE" -> {
                boolean lenient = r.is("GET") && r.flag("defaultToGlobal");
                String mode = subject == null ? state.globalMode() : state.mode(subject);
                if (mode == null && !lenient) {
                    throw new RegistryError(404, 40409, "Subject '" + subject
                            + "' does not have subject-level mode configured");
                }
                if (r.is("DELETE")) {
                    registry.clearMode(subject);
                }
                return object().put("mode", mode == null ? state.globalMode() : mode);
            }
            default -> throw r.noSuchMethod();
        }
    }

    private JsonNode compatibility(Request r) {
        if (!r.at(1).equals("subjects") || !r.at(3).equals("versions") || r.size() > 5) {
            throw noSuchPath();
        }
        requireMethod(r, "POST");
        String version = r.size() == 5 ? r.at(4) : null;
        List<String> violations = registry.violations(r.at(2), version, registry.candidate(r.json()));
        ObjectNode answer = object().put("is_compatible", violations.isEmpty());
        if (r.flag("verbose")) {
            answer.set("messages", array(violations));
        }
        return answer;
    }

    private JsonNode metadata(Request r) {
        requireMethod(r, "GET");
        if (r.size() != 3 || !r.at(1).equals("metadata")) {
            throw noSuchPath();
        }
        return switch (r.at(2)) {
            case "version" -> object().put("version", VERSION).put("commitId", "");
            case "id" -> {
                ObjectNode answer = object();
                ObjectNode scope = answer.putObject("scope");
                scope.putArray("path");
                scope.putObject("clusters")
                        .put("kafka-cluster", clusterId)
                        .put("schema-registry-cluster", "schema-registry");
                yield answer.put("id", "");
            }
            default -> throw noSuchPath();
        };
    }

    private static void requireMethod(Request r, String method) {
        if (!r.is(method)) {
            throw r.noSuchMethod();
        }
    }

    private static JsonNode entry(StoredSchema s) {
        ObjectNode entry =
                object().put("subject", s.subject()).put("version", s.version()).put("id", s.id());
        RegistryRecords.putReferences(entry, s.references());
        return entry.put("schema", s.schema());
    }

    private static JsonNode raw(StoredSchema s) {
        try {
            return RegistryRecords.JSON.readTree(s.schema());
        } catch (IOException e) {
            throw new RegistryError(500, 50001, "The stored schema is not JSON");
        }
    }

    private static ObjectNode object() {
        return RegistryRecords.JSON.createObjectNode();
    }

    private static ArrayNode array(Collection<?> values) {
        return RegistryRecords.JSON.valueToTree(values);
    }

    private static List<String> segments(String path) {
        List<String> segments = new ArrayList<>();
        for (String part : path.split("/")) {
            if (!part.isEmpty()) {
                // A plus sign is itself in a path; URLDecoder would make it a space.
                segments.add(URLDecoder.decode(part.replace("+", "%2B"), StandardCharsets.UTF_8));
            }
        }
        return segments;
    }

    private static Map<String, String> parameters(@Nullable String query) {
        Map<String, String> parameters = new HashMap<>();
        if (query != null) {
            for (String pair : query.split("&")) {
                int equals = pair.indexOf('=');
                String name = equals < 0 ? pair : pair.substring(0, equals);
                String value = equals < 0 ? "" : pair.substring(equals + 1);
                parameters.put(name, URLDecoder.decode(value, StandardCharsets.UTF_8));
            }
        }
        return parameters;
    }
}
