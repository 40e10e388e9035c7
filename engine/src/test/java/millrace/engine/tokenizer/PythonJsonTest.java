package millrace.engine.tokenizer;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class PythonJsonTest {
    @ParameterizedTest
    @CsvSource({
        "0.0, 0.0",
        "-0.0, -0.0",
        "1.0, 1.0",
        "1e0, 1.0",
        "0.1, 0.1",
        "100.0, 100.0",
        "1e15, 1000000000000000.0",
        "1e16, 1e+16",
        "1.5e16, 1.5e+16",
        "123456789012345680.0, 1.2345678901234568e+17",
        "0.0001, 0.0001",
        "0.00001, 1e-05",
        "1.25e-7, 1.25e-07",
        "5e-324, 5e-324",
        "2e23, 2e+23",
        "1.7976931348623157e308, 1.7976931348623157e+308",
        "1e400, Infinity",
        "-1e400, -Infinity",
        "3.14, 3.14",
        "-2.5, -2.5",
        "12, 12",
        "-7, -7",
        "123456789012345678901234567890, 123456789012345678901234567890",
        "9007199254740993.0, 9007199254740992.0"
    })
    void writesNumbersAsPython(String json, String expected) {
        assertThat(PythonJson.dumps(PythonJson.parse("test", json))).isEqualTo(expected);
    }

    @Test
    void writesTextAsPython() {
        String json = "{\"b\":[1,true,false,null],\"a\":\"é<b>&'\\\"\\\\\\/\\n"
                + "\\r"
                + "\\t\\b\\f\\u0001\\u007f\\u2028\",\"e\":{},\"f\":[]}";
        assertThat(PythonJson.dumps(PythonJson.parse("test", json)))
                .isEqualTo(
                        "{\"b\": [1, true, false, null], \"a\": \"é<b>&'\\\"\\\\/\\n\\r\\t\\b\\f\\u0001\u007f\u2028\","
                                + " \"e\": {}, \"f\": []}");
    }
}
