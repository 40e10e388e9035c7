package millrace.engine.reply;

/// How a chat format writes the call of a tool.
public enum CallForm {
    /// Not at all.
    NONE,
    /// `<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value>…</tool_call>`, line breaks between the parts or not.
    GLM,
    /// `<|tool_call_begin|>id<|tool_call_argument_begin|>{…}<|tool_call_end|>`, in a section or not.
    KIMI,
    /// `<tool_call>{"name": …, "arguments": {…}}</tool_call>`.
    JSON
}
