package millrace.engine;

import org.jspecify.annotations.Nullable;

/// What a completion must be. No token is chosen that could not lead there.
public sealed interface ResponseFormat {
    ResponseFormat TEXT = new Text();

    /// Any text.
    record Text() implements ResponseFormat {}

    /// One JSON object.
    record JsonObject() implements ResponseFormat {}

    /// One JSON value that a schema describes.
    ///
    /// @param schema a JSON Schema: the text of one JSON object, keys once
    record JsonSchema(String schema) implements ResponseFormat {}

    /// Calls of tools in the syntax of the chat format, with arguments that the tools' schemas describe.
    ///
    /// @param tools the declared tools, a JSON array as text
    /// @param only the name of the tool that is called, once; null for any of them, once or more
    /// @param required whether there is a call in any case; otherwise any text may come, with calls behind it or without
    record Calls(String tools, @Nullable String only, boolean required) implements ResponseFormat {
        /// What an attestation commits to: a JSON object, in it the tools as the request has them.
        public String text() {
            String choice = only == null ? required ? "\"required\"" : "\"auto\""
                    : "{\"type\":\"function\",\"function\":{\"name\":\"" + only + "\"}}";
            return "{\"type\":\"tool_calls\",\"tool_choice\":" + choice + ",\"tools\":" + tools + "}";
        }
    }

    /// What the choice of a tool asks for beside a form: calls if it requires some, or if a declared tool is strict; the form if not.
    ///
    /// @param format of the request otherwise
    /// @param tools the declared tools, a JSON array as text; null without any, or where the prompt is no conversation
    /// @param choice `auto`, `none`, `required`, or `{"type":"function","function":{"name":…}}`; null is `auto`
    /// @throws InvalidRequestException TOOL_CHOICE
    static ResponseFormat withTools(ResponseFormat format, @Nullable String tools, @Nullable String choice) {
        return ToolChoice.apply(format, tools, choice);
    }

    /// Reads the form that chat completion interfaces in common use have: `{"type":"text"}`, `{"type":"json_object"}` or
    /// `{"type":"json_schema","json_schema":{"name":…,"schema":{…}}}`.
    ///
    /// @throws InvalidRequestException RESPONSE_FORMAT
    static ResponseFormat parse(String json) {
        return ResponseFormatReader.read(json);
    }
}
