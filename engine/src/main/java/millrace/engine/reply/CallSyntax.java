package millrace.engine.reply;

import java.util.List;

/// How calls are written exactly, for completions that are held to it.
///
/// ```
///  open  begin NAME behindName  arguments  end  between  begin NAME …  close
/// ```
///
/// @param form how calls are read
/// @param thinks whether the format has reasoning
/// @param lineBreak what stands between the parts of a call, empty or a line break
/// @param open before the first call
/// @param begin before a tool's name
/// @param behindName between name and arguments
/// @param end behind the arguments
/// @param between calls
/// @param close behind the last call
public record CallSyntax(
        CallForm form,
        boolean thinks,
        String lineBreak,
        String open,
        String begin,
        String behindName,
        String end,
        String between,
        String close) {
    /// Between a Kimi call's id and its arguments.
    public static final String ARGUMENTS = KimiCalls.ARGUMENTS;

    /// Begins a call where no section was opened.
    public static final String KIMI_CALL = "<|tool_call_begin|>";

    /// @param lineBreak as the format's history has it
    public static CallSyntax glm(String lineBreak) {
        return new CallSyntax(CallForm.GLM, true, lineBreak, "", "<tool_call>", lineBreak, "", lineBreak, "");
    }

    public static CallSyntax kimi(boolean thinks) {
        return new CallSyntax(CallForm.KIMI, thinks, "", "<|tool_calls_section_begin|>", KIMI_CALL + "functions.", ":",
                "<|tool_call_end|>", "", "<|tool_calls_section_end|>");
    }

    public static CallSyntax json(boolean thinks) {
        return new CallSyntax(CallForm.JSON, thinks, "", "", "<tool_call>\n{\"name\": \"", "\", \"arguments\": ", "}\n</tool_call>", "\n", "");
    }

    /// What a text with calls has first of their markup.
    public String trigger() {
        return open.isEmpty() ? "<tool_call>" : open;
    }

    /// The markup of calls, some of which a tokenizer may have as tokens of their own.
    public List<String> markers() {
        return Markup.of(false, form).markers().stream().map(Marker::text).toList();
    }
}
