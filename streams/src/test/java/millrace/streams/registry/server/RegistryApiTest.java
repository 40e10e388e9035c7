package millrace.streams.registry.server;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class RegistryApiTest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String V1 = record("{'name':'a','type':'int'}");
    private static final String V2 = record("{'name':'a','type':'int'},{'name':'b','type':'int','default':0}");
    private static final String BAD = record("{'name':'a','type':'string'}");

    private final List<String[]> log = new ArrayList<>();
    private final RegistryApi api = new RegistryApi((key, value) -> log.add(new String[] {key, value}), "cluster-1");

    private static String record(String fields) {
        return ("{'type':'record','name':'R','namespace':'n','fields':[" + fields + "]}").replace('\'', '"');
    }

    private static String body(String schema) {
        return JSON.createObjectNode().put("schema", schema).toString();
    }

    private RegistryApi.Answer send(String method, String target, @Nullable String body) {
        int query = target.indexOf('?');
        return api.handle(
                method,
                query < 0 ? target : target.substring(0, query),
                query < 0 ? null : target.substring(query + 1),
                body == null ? new byte[0] : body.getBytes(StandardCharsets.UTF_8));
    }

    private void expect(String method, String target, @Nullable String body, int status, String answer)
            throws IOException {
        RegistryApi.Answer got = send(method, target, body);
        assertThat(got.status())
                .as("%s %s -> %s", method, target, new String(got.body(), StandardCharsets.UTF_8))
                .isEqualTo(status);
        assertThat(JSON.readTree(got.body())).isEqualTo(JSON.readTree(answer.replace('\'', '"')));
    }

    private void expectError(String method, String target, @Nullable String body, int status, int code, String message)
            throws IOException {
        JsonNode error = JSON.createObjectNode().put("error_code", code).put("message", message);
        RegistryApi.Answer got = send(method, target, body);
        assertThat(got.status()).as("%s %s", method, target).isEqualTo(status);
        assertThat(JSON.readTree(got.body())).isEqualTo(error);
    }

    private String entry(int version, int id, String schema) {
        return JSON.createObjectNode()
                .put("subject", "s")
                .put("version", version)
                .put("id", id)
                .put("schema", schema)
                .toString();
    }

    @Test
    void registersAndFindsSchemas() throws IOException {
        expect("POST", "/subjects/s/versions?normalize=false", body(V1), 200, "{'id':1}");
        expect("POST", "/subjects/s/versions", body(V1), 200, "{'id':1}");
        expect("POST", "/subjects/s/versions", body(V2), 200, "{'id':2}");
        expect("POST", "/subjects/t%2Fu/versions", body(V1), 200, "{'id':1}");
        expect("POST", "/subjects/s?normalize=false&deleted=false", body(V2), 200, entry(2, 2, V2));
        expect("GET", "/subjects", null, 200, "['s','t/u']");
        expect("GET", "/subjects?subjectPrefix=t", null, 200, "['t/u']");
        expect("GET", "/subjects/s/versions", null, 200, "[1,2]");
        expect("GET", "/subjects/s/versions/1", null, 200, entry(1, 1, V1));
        expect("GET", "/subjects/s/versions/latest", null, 200, entry(2, 2, V2));
        expect("GET", "/subjects/s/versions/-1", null, 200, entry(2, 2, V2));
        expect("GET", "/subjects/s/versions/1/schema", null, 200, V1);
        expect("GET", "/subjects/s/versions/1/referencedby", null, 200, "[]");
        expect("GET", "/schemas/ids/2?fetchMaxId=false&subject=s", null, 200, body(V2));
        expect("GET", "/schemas/ids/1/schema", null, 200, V1);
        expect("GET", "/schemas/ids/1/subjects", null, 200, "['s','t/u']");
        expect("GET", "/schemas/ids/2/versions", null, 200, "[{'subject':'s','version':2}]");
        expect("GET", "/schemas/types", null, 200, "['AVRO']");
        assertThat(new String(send("GET", "/schemas/ids/1?fetchMaxId=true", null).body(), StandardCharsets.UTF_8))
                .contains("\"maxId\":2");
    }

    @Test
    void answersWhatToolsAskFirst() throws IOException {
        expect("GET", "/", null, 200, "{}");
        expect("GET", "/contexts", null, 200, "['.']");
        expect("GET", "/v1/metadata/version", null, 200, "{'version':'8.0.0','commitId':''}");
        expect("GET", "/v1/metadata/id", null, 200, "{'scope':{'path':[],'clusters':{'kafka-cluster':'cluster-1',"
                + "'schema-registry-cluster':'schema-registry'}},'id':''}");
        expect("GET", "/mode", null, 200, "{'mode':'READWRITE'}");
        expect("GET", "/config", null, 200, "{'compatibilityLevel':'BACKWARD'}");
        expectError("GET", "/associations/resources/-/topic?resourceType=topic", null, 404, 404, "HTTP 404 Not Found");
    }

    @Test
    void refusesWithConfluentsCodes() throws IOException {
        send("POST", "/subjects/s/versions", body(V1));
        expectError("GET", "/subjects/x/versions", null, 404, 40401, "Subject 'x' not found.");
        expectError("GET", "/subjects/x/versions/latest", null, 404, 40401, "Subject 'x' not found.");
        expectError("POST", "/subjects/x", body(V1), 404, 40401, "Subject 'x' not found.");
        expectError("DELETE", "/subjects/x", null, 404, 40401, "Subject 'x' not found.");
        expectError("GET", "/subjects/s/versions/7", null, 404, 40402, "Version 7 not found.");
        expectError("POST", "/subjects/s", body(V2), 404, 40403, "Schema not found");
        expectError("GET", "/schemas/ids/99", null, 404, 40403, "Schema 99 not found");
        expectError("GET", "/schemas/ids/99/subjects", null, 404, 40403, "Schema 99 not found");
        expectError("GET", "/schemas/guids/0-0", null, 404, 40403, "Schema 0-0 not found");
        expectError("GET", "/config/x", null, 404, 40408,
                "Subject 'x' does not have subject-level compatibility configured");
        expectError("GET", "/mode/x", null, 404, 40409, "Subject 'x' does not have subject-level mode configured");
        expectError("PUT", "/config", "{\"compatibility\":\"SIDEWAYS\"}", 422, 42203, "Invalid compatibility level."
                + " Valid values are none, backward, forward, full, backward_transitive, forward_transitive, and"
                + " full_transitive");
        expectError("PUT", "/mode", "{\"mode\":\"SLOW\"}", 422, 42204,
                "Invalid mode. Valid values are READWRITE, READONLY, READONLY_OVERRIDE and IMPORT");
        expectError("POST", "/compatibility/subjects/x/versions/latest", body(V1), 404, 40401,
                "Subject 'x' not found.");
        expectError("POST", "/subjects/s/versions", "{}", 422, 42201,
                "Empty schema; expected the field \"schema\" with the schema as text");
        expectError("POST", "/subjects/s/versions", "{\"schema\":\"x\",\"schemaType\":\"PROTOBUF\"}", 422, 42201,
                "Invalid schema type PROTOBUF; expected AVRO");
        expectError("POST", "/subjects/s/versions", "not json", 400, 400, "The request body is not JSON");
        expectError("POST", "/subjects/s/versions", "[]", 400, 400, "The request body is not a JSON object");
        expectError("PATCH", "/subjects/s", null, 405, 405, "HTTP 405 Method Not Allowed");
        expectError("GET", "/nowhere", null, 404, 404, "HTTP 404 Not Found");
        expectError("GET", "/schemas/ids/one", null, 404, 404, "HTTP 404 Not Found");
    }

    @ParameterizedTest
    @ValueSource(strings = {"0", "-2", "one", "99999999999", "LATEST"})
    void refusesVersionsThatAreNone(String version) throws IOException {
        send("POST", "/subjects/s/versions", body(V1));
        expectError("GET", "/subjects/s/versions/" + version, null, 422, 42202, "The specified version '" + version
                + "' is not a valid version id. Allowed values are between [1, 2^31-1] and the string \"latest\"");
    }

    @Test
    void refusesSchemasThatAvroRefusesOrThatAreTooDeep() throws IOException {
        for (String schema : List.of("{\"type\":\"nothing\"}", "{", "[".repeat(5_000))) {
            RegistryApi.Answer answer = send("POST", "/subjects/s/versions", body(schema));
            assertThat(answer.status()).isEqualTo(422);
            assertThat(JSON.readTree(answer.body()).path("error_code").asInt()).isEqualTo(42201);
        }
    }

    @ParameterizedTest
    @CsvSource({
        // level, may add a field with a default, may add one without, may remove one without a default
        "NONE,true,true,true",
        "BACKWARD,true,false,true",
        "BACKWARD_TRANSITIVE,true,false,true",
        "FORWARD,true,true,false",
        "FORWARD_TRANSITIVE,true,true,false",
        "FULL,true,false,false",
        "FULL_TRANSITIVE,true,false,false"
    })
    void keepsTheLevel(String level, boolean addWithDefault, boolean addWithout, boolean remove) throws IOException {
        send("PUT", "/config/s", "{\"compatibility\":\"" + level + "\"}");
        send("POST", "/subjects/s/versions", body(V1));
        check("s", V2, addWithDefault);
        check("s", record("{'name':'a','type':'int'},{'name':'c','type':'int'}"), addWithout);
        check("s", record(""), remove);
    }

    private void check(String subject, String schema, boolean compatible) throws IOException {
        expect("POST", "/compatibility/subjects/" + subject + "/versions/latest", body(schema), 200,
                "{'is_compatible':" + compatible + "}");
    }

    @Test
    void refusesAnIncompatibleVersionAndSaysWhy() throws IOException {
        send("POST", "/subjects/s/versions", body(V1));
        RegistryApi.Answer answer = send("POST", "/subjects/s/versions", body(BAD));
        assertThat(answer.status()).isEqualTo(409);
        JsonNode error = JSON.readTree(answer.body());
        assertThat(error.path("error_code").asInt()).isEqualTo(409);
        assertThat(error.path("message").asText())
                .startsWith("Schema being registered is incompatible with an earlier schema for subject \"s\","
                        + " details: [")
                .contains("TYPE_MISMATCH at /fields/0/type");
        assertThat(new String(send("POST", "/compatibility/subjects/s/versions/1?verbose=true", body(BAD)).body(),
                        StandardCharsets.UTF_8))
                .contains("\"is_compatible\":false", "TYPE_MISMATCH");
        expect("PUT", "/config/s", "{\"compatibility\":\"NONE\"}", 200, "{'compatibility':'NONE'}");
        expect("GET", "/config/s", null, 200, "{'compatibilityLevel':'NONE'}");
        expect("POST", "/subjects/s/versions", body(BAD), 200, "{'id':2}");
        expect("DELETE", "/config/s", null, 200, "{'compatibilityLevel':'NONE'}");
        expect("GET", "/config/s?defaultToGlobal=true", null, 200, "{'compatibilityLevel':'BACKWARD'}");
    }

    @Test
    void transitiveLevelsLookAtAllVersions() throws IOException {
        String added = record("{'name':'a','type':'int'},{'name':'b','type':'int','default':0}");
        String changed = record("{'name':'a','type':'int'},{'name':'b','type':'string'}");
        String neither = record("{'name':'a','type':'int'}");
        for (boolean transitive : new boolean[] {false, true}) {
            String subject = "t" + transitive;
            send("PUT", "/config/" + subject, "{\"compatibility\":\"NONE\"}");
            send("POST", "/subjects/" + subject + "/versions", body(changed));
            send("POST", "/subjects/" + subject + "/versions", body(neither));
            send("PUT", "/config/" + subject,
                    "{\"compatibility\":\"BACKWARD" + (transitive ? "_TRANSITIVE" : "") + "\"}");
            int status = send("POST", "/subjects/" + subject + "/versions", body(added)).status();
            assertThat(status).isEqualTo(transitive ? 409 : 200);
        }
    }

    @Test
    void deletesSoftlyThenForGood() throws IOException {
        send("POST", "/subjects/s/versions", body(V1));
        send("POST", "/subjects/s/versions", body(V2));
        expectError("DELETE", "/subjects/s/versions/1?permanent=true", null, 404, 40407,
                "Subject 's' Version 1 was not deleted first before being permanently deleted");
        expect("DELETE", "/subjects/s/versions/1", null, 200, "1");
        expectError("DELETE", "/subjects/s/versions/1", null, 404, 40406,
                "Subject 's' Version 1 was soft deleted. Set permanent=true to delete permanently");
        expectError("GET", "/subjects/s/versions/1", null, 404, 40402, "Version 1 not found.");
        expect("GET", "/subjects/s/versions?deleted=true", null, 200, "[1,2]");
        expect("GET", "/schemas/ids/1", null, 200, body(V1));
        expect("DELETE", "/subjects/s/versions/1?permanent=true", null, 200, "1");
        expectError("GET", "/schemas/ids/1", null, 404, 40403, "Schema 1 not found");
        expectError("DELETE", "/subjects/s?permanent=true", null, 404, 40405,
                "Subject 's' was not deleted first before being permanently deleted");
        expect("DELETE", "/subjects/s", null, 200, "[2]");
        expectError("DELETE", "/subjects/s", null, 404, 40404,
                "Subject 's' was soft deleted. Set permanent=true to delete permanently");
        expect("GET", "/subjects", null, 200, "[]");
        expect("GET", "/subjects?deleted=true", null, 200, "['s']");
        expect("POST", "/subjects/s/versions", body(V2), 200, "{'id':2}");
        expect("GET", "/subjects/s/versions", null, 200, "[3]");
        send("DELETE", "/subjects/s", null);
        expect("DELETE", "/subjects/s?permanent=true", null, 200, "[2,3]");
        expectError("GET", "/subjects/s/versions?deleted=true", null, 404, 40401, "Subject 's' not found.");
    }

    @Test
    void modesStopWritesOrLetIdsIn() throws IOException {
        expect("PUT", "/mode/s", "{\"mode\":\"READONLY\"}", 200, "{'mode':'READONLY'}");
        expectError("POST", "/subjects/s/versions", body(V1), 422, 42205, "Subject s is in read-only mode");
        expect("DELETE", "/mode/s", null, 200, "{'mode':'READONLY'}");
        String withId = JSON.createObjectNode().put("schema", V1).put("id", 40).put("version", 5).toString();
        expectError("POST", "/subjects/s/versions", withId, 422, 42205, "Subject s is not in import mode");
        send("PUT", "/mode/s", "{\"mode\":\"IMPORT\"}");
        expect("POST", "/subjects/s/versions", withId, 200, "{'id':40}");
        expect("GET", "/subjects/s/versions", null, 200, "[5]");
        String taken = JSON.createObjectNode().put("schema", V2).put("id", 40).toString();
        expectError("POST", "/subjects/s/versions", taken, 422, 42205,
                "Overwrite new schema with id 40 is not permitted.");
    }

    @Test
    void schemasMayReferToOthers() throws IOException {
        send("POST", "/subjects/inner/versions", body(V1));
        String outer = "{\"type\":\"record\",\"name\":\"O\",\"fields\":[{\"name\":\"r\",\"type\":\"n.R\"}]}";
        String references = ",\"references\":[{\"name\":\"n.R\",\"subject\":\"inner\",\"version\":1}]}";
        String body = body(outer).replaceFirst("}$", references.replace("\\", ""));
        expect("POST", "/subjects/outer/versions", body, 200, "{'id':2}");
        expect("GET", "/subjects/inner/versions/1/referencedby", null, 200, "[2]");
        assertThat(new String(send("GET", "/schemas/ids/2", null).body(), StandardCharsets.UTF_8))
                .contains("\"references\":[{\"name\":\"n.R\",\"subject\":\"inner\",\"version\":1}]");
        assertThat(JSON.readTree(send("DELETE", "/subjects/inner", null).body()).path("error_code").asInt())
                .isEqualTo(42206);
        expectError("POST", "/subjects/other/versions", body.replace("\"version\":1", "\"version\":9"), 422, 42201,
                "Invalid schema, details: no schema reference found for subject \"inner\" and version 9");
    }

    @Test
    void writesConfluentsRecordsAndComesBackFromThem() throws IOException {
        send("POST", "/subjects/s/versions", body(V1));
        send("PUT", "/config", "{\"compatibility\":\"FULL\"}");
        send("PUT", "/mode/s", "{\"mode\":\"READONLY\"}");
        assertThat(log.get(0)[0])
                .isEqualTo("{\"keytype\":\"SCHEMA\",\"subject\":\"s\",\"version\":1,\"magic\":1}");
        assertThat(JSON.readTree(log.get(0)[1])).isEqualTo(JSON.createObjectNode()
                .put("subject", "s").put("version", 1).put("id", 1).put("schema", V1).put("deleted", false));
        assertThat(log.get(1)).containsExactly(
                "{\"keytype\":\"CONFIG\",\"subject\":null,\"magic\":0}", "{\"compatibilityLevel\":\"FULL\"}");
        assertThat(log.get(2)).containsExactly(
                "{\"keytype\":\"MODE\",\"subject\":\"s\",\"magic\":0}", "{\"mode\":\"READONLY\"}");
        send("DELETE", "/mode/s", null);
        send("POST", "/subjects/s/versions", body(V2));
        send("DELETE", "/subjects/s", null);
        assertThat(log.get(log.size() - 1)).containsExactly(
                "{\"keytype\":\"DELETE_SUBJECT\",\"subject\":\"s\",\"magic\":0}", "{\"subject\":\"s\",\"version\":2}");

        RegistryApi again = new RegistryApi((_, _) -> {}, "cluster-1");
        for (String[] entry : log) {
            again.replay(entry[0], entry[1]);
        }
        again.replay("{\"keytype\":\"NOOP\",\"magic\":0}", null);
        again.replay("{\"keytype\":\"CONTEXT\",\"tenant\":\"t\",\"magic\":0}", "{\"context\":\"c\"}");
        for (String path : List.of("/subjects", "/config", "/mode", "/schemas/ids/2")) {
            assertThat(again.handle("GET", path, null, new byte[0]).body())
                    .as(path)
                    .isEqualTo(send("GET", path, null).body());
        }
        RegistryApi.Answer deleted = again.handle("GET", "/subjects", "deleted=true", new byte[0]);
        assertThat(new String(deleted.body(), StandardCharsets.UTF_8)).isEqualTo("[\"s\"]");
    }
}
