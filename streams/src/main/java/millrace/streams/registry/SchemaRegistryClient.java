package millrace.streams.registry;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import millrace.streams.registry.server.SchemaTexts;
import org.apache.avro.Schema;
import org.jspecify.annotations.Nullable;

/// Client of a schema registry that speaks Confluent's REST interface; safe for use by many threads.
///
/// Ids are cached for good (a registry never changes the schema of an id), and so are registrations. Every method may
/// block for the timeouts and retries of its [RegistryConfig] and throws [RegistryException].
public final class SchemaRegistryClient implements AutoCloseable {
    private static final int MAX_CACHED = 10_000;
    private static final int MAX_REFERENCES = 64;
    private static final ObjectMapper JSON = new ObjectMapper();

    private final RegistryTransport transport;
    private final long missingIdTtlNanos;
    private final Map<Integer, Schema> byId = new ConcurrentHashMap<>();
    private final Map<UUID, Schema> byGuid = new ConcurrentHashMap<>();
    private final Map<Integer, Long> missingIds = new ConcurrentHashMap<>();
    private final Map<SubjectSchema, Integer> ids = new ConcurrentHashMap<>();

    private record SubjectSchema(String subject, String schema, boolean normalize) {}

    private SchemaRegistryClient(RegistryTransport transport, RegistryConfig config) {
        this.transport = transport;
        this.missingIdTtlNanos = config.missingIdTtl().toNanos();
    }

    /// Opens a client; nothing is sent before the first request.
    public static SchemaRegistryClient open(RegistryConfig config) {
        boolean mock = "mock".equals(config.urls().getFirst().getScheme());
        return new SchemaRegistryClient(
                mock ? MockTransport.of(config.urls().getFirst()) : new HttpTransport(config), config);
    }

    /// Opens a client by Confluent's configuration names.
    public static SchemaRegistryClient open(Map<String, ?> configs) {
        return open(RegistryConfig.of(configs));
    }

    /// Id of `schema` in `subject`, registering it when it is new there.
    public int register(String subject, Schema schema, boolean normalize) {
        SubjectSchema key = new SubjectSchema(subject, schema.toString(), normalize);
        Integer known = ids.get(key);
        if (known != null) {
            return known;
        }
        JsonNode answer = request(
                "POST", "/subjects/" + encode(subject) + "/versions?normalize=" + normalize, schemaBody(key.schema));
        int id = integer(answer, "id");
        remember(id, schema);
        if (ids.size() < MAX_CACHED) {
            ids.put(key, id);
        }
        return id;
    }

    public int register(String subject, Schema schema) {
        return register(subject, schema, false);
    }

    /// The version of `subject` that has this schema; `REGISTRY_REFUSED` when it is not registered there.
    public RegisteredSchema lookup(String subject, Schema schema, boolean normalize) {
        String text = schema.toString();
        JsonNode answer =
                request("POST", "/subjects/" + encode(subject) + "?normalize=" + normalize, schemaBody(text));
        int id = integer(answer, "id");
        remember(id, schema);
        return new RegisteredSchema(subject, integer(answer, "version"), id, schema);
    }

    public RegisteredSchema lookup(String subject, Schema schema) {
        return lookup(subject, schema, false);
    }

    /// The newest version of `subject`; `REGISTRY_REFUSED` when there is none. Never from the cache.
    public RegisteredSchema latest(String subject) {
        return version(subject, "latest");
    }

    /// All versions of `subject`, oldest first; empty when the registry does not know it. Fills the cache of ids.
    public List<RegisteredSchema> versions(String subject) {
        JsonNode answer;
        try {
            answer = request("GET", "/subjects/" + encode(subject) + "/versions", null);
        } catch (RegistryException e) {
            if (e.errorCode() == 40401) {
                return List.of();
            }
            throw e;
        }
        List<RegisteredSchema> versions = new ArrayList<>();
        for (JsonNode version : answer) {
            versions.add(version(subject, String.valueOf(version.asInt())));
        }
        return versions;
    }

    private RegisteredSchema version(String subject, String version) {
        JsonNode answer = request("GET", "/subjects/" + encode(subject) + "/versions/" + version, null);
        int id = integer(answer, "id");
        Schema schema = parse("schema %d".formatted(id), answer);
        remember(id, schema);
        return new RegisteredSchema(subject, integer(answer, "version"), id, schema);
    }

    /// The schema of an id; `SCHEMA_UNKNOWN_ID` when the registry answers that there is none.
    public Schema byId(int id) {
        Schema known = byId.get(id);
        if (known != null) {
            return known;
        }
        Long asked = missingIds.get(id);
        if (asked != null && System.nanoTime() - asked < missingIdTtlNanos) {
            throw unknownId(id);
        }
        JsonNode answer;
        try {
            answer = request("GET", "/schemas/ids/" + id + "?fetchMaxId=false", null);
        } catch (RegistryException e) {
            if (e.errorCode() != 40403) {
                throw e;
            }
            if (missingIds.size() >= MAX_CACHED) {
                missingIds.clear();
            }
            missingIds.put(id, System.nanoTime());
            throw unknownId(id);
        }
        Schema schema = parse("schema %d".formatted(id), answer);
        remember(id, schema);
        return schema;
    }

    /// Whether [#byId] answers without a request.
    public boolean isCached(int id) {
        return byId.containsKey(id);
    }

    /// The schema of a globally unique id, as newer serializers put it into a header.
    public Schema byGuid(UUID guid) {
        Schema known = byGuid.get(guid);
        if (known != null) {
            return known;
        }
        JsonNode answer;
        try {
            answer = request("GET", "/schemas/guids/" + guid, null);
        } catch (RegistryException e) {
            if (e.errorCode() != 40403) {
                throw e;
            }
            throw new RegistryException("SCHEMA_UNKNOWN_ID",
                    "schema registry %s: there is no schema %s".formatted(transport.address(), guid));
        }
        Schema schema = parse("schema %s".formatted(guid), answer);
        if (byGuid.size() < MAX_CACHED) {
            byGuid.put(guid, schema);
        }
        return schema;
    }

    /// Asks for something cheap; returns when the registry answers like one.
    public void ping() {
        request("GET", "/schemas/types", null);
    }

    @Override
    public void close() {
        transport.close();
    }

    private void remember(int id, Schema schema) {
        if (byId.size() < MAX_CACHED) {
            byId.putIfAbsent(id, schema);
        }
        missingIds.remove(id);
    }

    private RegistryException unknownId(int id) {
        return new RegistryException("SCHEMA_UNKNOWN_ID",
                "schema registry %s: there is no schema of id %d".formatted(transport.address(), id));
    }

    private Schema parse(String what, JsonNode answer) {
        String type = answer.path("schemaType").asText("AVRO");
        if (!type.equals("AVRO")) {
            throw new RegistryException("SCHEMA_FOREIGN",
                    "%s: expected an Avro schema, got one of type %s".formatted(what, SchemaTexts.quote(type, 40)));
        }
        List<String> references = new ArrayList<>();
        collectReferences(what, answer, references, new HashSet<>());
        try {
            return SchemaTexts.parse(text(answer, "schema"), references);
        } catch (IOException e) {
            throw new RegistryException("SCHEMA_FOREIGN", "%s: expected an Avro schema, got one that Avro refuses: %s"
                    .formatted(what, SchemaTexts.quote(e.getMessage(), 200)), e);
        }
    }

    /* Texts of the types that the schema refers to, each after those that it needs itself. */
    private void collectReferences(String what, JsonNode schema, List<String> texts, Set<String> seen) {
        for (JsonNode reference : schema.path("references")) {
            String subject = text(reference, "subject");
            int version = integer(reference, "version");
            if (!seen.add(subject + "/" + version)) {
                continue;
            }
            if (seen.size() > MAX_REFERENCES) {
                throw new RegistryException("SCHEMA_FOREIGN",
                        "%s: expected at most %d references, got more".formatted(what, MAX_REFERENCES));
            }
            JsonNode target = request("GET", "/subjects/" + encode(subject) + "/versions/" + version, null);
            collectReferences(what, target, texts, seen);
            texts.add(text(target, "schema"));
        }
    }

    private JsonNode request(String method, String path, byte @Nullable [] body) {
        RegistryTransport.Reply reply = transport.send(method, path, body);
        JsonNode answer;
        try {
            answer = JSON.readTree(reply.body());
        } catch (IOException e) {
            throw notOurs(method, path, reply.status());
        }
        if (reply.status() < 300 && answer != null && answer.isContainerNode()) {
            return answer;
        }
        if (reply.status() < 400 || answer == null || !answer.path("error_code").isInt()) {
            throw notOurs(method, path, reply.status());
        }
        int errorCode = answer.path("error_code").asInt();
        throw new RegistryException("REGISTRY_REFUSED", errorCode, "schema registry %s: %s %s: refused with %d: %s"
                .formatted(transport.address(), method, path, errorCode,
                        SchemaTexts.quote(answer.path("message").asText(""), 300)));
    }

    private RegistryException notOurs(String method, String path, int status) {
        return new RegistryException("REGISTRY_RESPONSE", ("schema registry %s: %s %s: expected a registry's JSON, got"
                + " HTTP %d with something else; is schema.registry.url that of a schema registry?")
                        .formatted(transport.address(), method, path, status));
    }

    private int integer(JsonNode answer, String field) {
        JsonNode value = answer.path(field);
        if (!value.canConvertToInt() || !value.isIntegralNumber()) {
            throw fieldMissing(field);
        }
        return value.asInt();
    }

    private String text(JsonNode answer, String field) {
        JsonNode value = answer.path(field);
        if (!value.isTextual()) {
            throw fieldMissing(field);
        }
        return value.asText();
    }

    private RegistryException fieldMissing(String field) {
        String message = "schema registry %s: expected field \"%s\" in the answer, got none;"
                + " is schema.registry.url that of a schema registry?";
        return new RegistryException("REGISTRY_RESPONSE", message.formatted(transport.address(), field));
    }

    private static byte[] schemaBody(String schema) {
        ObjectNode body = JSON.createObjectNode().put("schema", schema);
        return body.toString().getBytes(StandardCharsets.UTF_8);
    }

    private static String encode(String subject) {
        return URLEncoder.encode(subject, StandardCharsets.UTF_8).replace("+", "%20");
    }
}
