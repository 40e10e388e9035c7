package millrace.engine;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ResponseFormatTest {
    @Test
    void readsTheThreeForms() {
        assertThat(ResponseFormat.parse("{\"type\":\"text\"}")).isEqualTo(ResponseFormat.TEXT);
        assertThat(ResponseFormat.parse(" {\"type\": \"json_object\"}\n")).isEqualTo(new ResponseFormat.JsonObject());
        String schema = "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"number\",\"maximum\":1E+400}}}";
        assertThat(ResponseFormat.parse(
                        "{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"n\",\"strict\":true,\"schema\":" + schema + "}}"))
                .isEqualTo(new ResponseFormat.JsonSchema(schema));
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
            ''                                             | response_format: expected a JSON object, got nothing
            []                                             | response_format: expected a JSON object, got []
            {"type":"xml"}                                 | response_format.type: expected text, json_object or json_schema, got "xml"
            {}                                             | response_format.type: expected text, json_object or json_schema, got nothing
            {"type":"json_object","schema":{}}             | response_format: expected no keys but type, got "schema"
            {"type":"json_schema"}                         | response_format.json_schema: expected a JSON object, got nothing
            {"type":"json_schema","json_schema":{}}        | response_format.json_schema.schema: expected a JSON object, got nothing
            {"type":"json_schema","json_schema":{"name":1}} | response_format.json_schema.name: expected a string, got 1
            {"type":"json_schema","json_schema":{"schema":{},"strict":"yes"}} | response_format.json_schema.strict: expected true or false, got "yes"
            {"type":"text"} x                              | response_format: expected one JSON object, nested at most 64 deep, keys once, got other text at character
            {"type":"text","type":"text"}                  | response_format: expected one JSON object, nested at most 64 deep, keys once, got other text at character
            """)
    void refusesWhatItDoesNotKnow(String json, String message) {
        refused(json, message);
    }

    @Test
    void refusesWhatIsTooLargeOrTooDeep() {
        refused("{\"type\":\"text\"" + " ".repeat(ResponseFormatReader.MAX_CHARACTERS) + "}",
                "response_format: expected at most 65536 characters, got 65551");
        String deep = "{\"a\":".repeat(70) + "1" + "}".repeat(70);
        refused("{\"type\":\"json_schema\",\"json_schema\":{\"schema\":" + deep + "}}", "nested at most 64 deep");
    }

    private static void refused(String json, String message) {
        assertThatThrownBy(() -> ResponseFormat.parse(json))
                .isInstanceOfSatisfying(
                        InvalidRequestException.class, e -> assertThat(e.code()).isEqualTo("RESPONSE_FORMAT"))
                .hasMessageContaining(message)
                .hasMessageEndingWith("; see docs/formats.md");
    }
}
