package millrace.engine;

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

    /// Reads the form that chat completion interfaces in common use have: `{"type":"text"}`, `{"type":"json_object"}` or
    /// `{"type":"json_schema","json_schema":{"name":…,"schema":{…}}}`.
    ///
    /// @throws InvalidRequestException RESPONSE_FORMAT
    static ResponseFormat parse(String json) {
        return ResponseFormatReader.read(json);
    }
}
