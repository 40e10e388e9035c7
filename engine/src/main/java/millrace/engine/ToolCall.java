package millrace.engine;

/// One call of a tool on an assistant's turn; `arguments` is a JSON object as text.
public record ToolCall(String id, String name, String arguments) {}
