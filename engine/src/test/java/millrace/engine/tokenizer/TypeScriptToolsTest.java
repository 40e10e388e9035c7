package millrace.engine.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class TypeScriptToolsTest {
    private static String declare(String json) {
        List<JsonNode> tools = new ArrayList<>();
        PythonJson.parse("tools", json).forEach(tools::add);
        return TypeScriptTools.declare(tools);
    }

    private static String parameters(String schema) {
        String declared =
                declare("[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":" + schema + "}}]");
        String head = "# Tools\n\n## functions\nnamespace functions {\n";
        assertThat(declared).startsWith(head).endsWith("\n}\n");
        return declared.substring(head.length(), declared.length() - 3);
    }

    @Test
    void declaresAFunction() {
        assertThat(declare("""
            [{"type":"function","function":{"name":"get_weather","description":"Get weather","parameters":{
            "type":"object","required":["city"],"properties":{"unit":{"type":"string","enum":["c","f"],"default":"c"},
            "days":{"type":"integer","minimum":1},"city":{"type":"string","description":"City"}}}}}]\
            """)).isEqualTo("""
                # Tools

                ## functions
                namespace functions {
                // Get weather
                type get_weather = (_: {
                  // City
                  city: string,
                  // minimum: 1
                  days?: number,
                  // Default: "c"
                  unit?: "c" | "f"
                }) => any;
                }
                """);
    }

    @Test
    void writesEveryKindOfType() {
        assertThat(parameters("""
            {"type":"object","additionalProperties":false,"properties":{
            "a":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":2},
            "b":{"type":"array","items":{"type":"number","description":"one\\n\\ntwo","maximum":1.5}},
            "c":{"anyOf":[{"type":"string"},{"type":"null"},true,false,{}]},
            "d":{"type":["integer","null","object","array"]},
            "e":{"enum":["x",1,1.0,true,null]},
            "f":{"type":"object","properties":{"g":{"type":"boolean","default":true}},
                 "additionalProperties":{"type":"integer"}},
            "h":{"type":"array"},
            "i":{"type":"object"},
            "j":{"type":"string","pattern":"^a","maxLength":3,"minLength":1,"default":{"z":1,"y":"é"}}}}\
            """)).isEqualTo("""
                type f = (_: {
                  // maxItems: 2, minItems: 1
                  a?: Array<string>,
                  b?: Array<
                    // one

                    // two
                    // maximum: 1.5
                    number
                  >,
                  c?: string | null | any | null | any,
                  d?: number | null | {} | Array<any>,
                  e?: "x" | 1 | 1.0 | True | None,
                  f?: {
                    // Default: True
                    g?: boolean,
                    [k: string]: number
                  },
                  h?: Array<any>,
                  i?: {},
                  // maxLength: 3, minLength: 1, pattern: ^a
                  // Default: {"y": "é", "z": 1}
                  j?: string,
                  [k: string]: never
                }) => any;\
                """);
    }

    @Test
    void writesReferences() {
        assertThat(parameters("""
            {"type":"object","required":["n"],"properties":{"n":{"$ref":"#/$defs/Node"}},
            "$defs":{"Node":{"type":"object","description":"A node","properties":{
            "next":{"$ref":"#/$defs/Node"}}}}}\
            """)).isEqualTo("""
                // A node
                interface Node {
                  next?: Node
                }
                type f = (_: {
                  n: Node
                }) => any;\
                """);
        assertThat(parameters("{\"type\":\"object\",\"properties\":{\"more\":{\"$ref\":\"#\"}}}"))
                .isEqualTo("interface parameters {\n  more?: parameters\n}\ntype f = (_: parameters) => any;");
    }

    @Test
    void writesFunctionsWithoutParameters() {
        assertThat(parameters("{}")).isEqualTo("type f = (_: {}) => any;");
        assertThat(parameters("null")).isEqualTo("type f = (_: {}) => any;");
    }

    @Test
    void fallsBackToSortedCompactJson() {
        assertThat(declare("[{\"type\":\"other\",\"b\":1,\"a\":{\"d\":1,\"c\":\"é\"}}]"))
                .isEqualTo("[{\"a\":{\"c\":\"é\",\"d\":1},\"b\":1,\"type\":\"other\"}]");
        String noForm = "{\"name\":\"f\",\"parameters\":{\"properties\":{\"x\":{\"title\":\"no type\"}}}}";
        assertThat(declare("[{\"type\":\"function\",\"function\":" + noForm + "}]"))
                .isEqualTo("[{\"function\":" + noForm + ",\"type\":\"function\"}]");
        for (String schema : List.of(
                "{\"$ref\":\"#/$defs/Gone\"}",
                "{\"enum\":[1],\"type\":\"string\"}",
                "{\"enum\":[1],\"type\":[\"string\",\"integer\"]}",
                "{\"type\":[\"odd\"]}",
                "{\"type\":\"string\",\"description\":7}",
                "{\"type\":\"object\",\"additionalProperties\":\"x\"}",
                "{\"type\":\"object\",\"properties\":[]}",
                "{\"type\":\"object\",\"$defs\":[]}",
                "\"x\"")) {
            assertThat(declare("[{\"type\":\"function\",\"function\":{\"name\":\"f\","
                            + "\"parameters\":{\"properties\":{\"x\":"
                            + schema + "}}}}]"))
                    .as(schema)
                    .startsWith("[{\"function\":{\"name\":\"f\"");
        }
    }
}
