package millrace.engine.reply;

import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import millrace.engine.ChatMessage;
import millrace.engine.ToolCall;
import org.jspecify.annotations.Nullable;

/// The calls of Kimi: the tool's name is part of the id, `functions.name:index`, and the index counts the calls of the whole
/// conversation. Ids in other forms are met in the wild; they are given in this one, since the model expects it of its history.
final class KimiCalls extends CallReader {
    static final String ARGUMENTS = "<|tool_call_argument_begin|>";
    private static final String PREFIX = "functions";
    private static final Pattern NUMBERED = Pattern.compile("(?:functions\\.)?(.{1,128}):[0-9]{1,9}");
    private static final Pattern CANONICAL = Pattern.compile("functions\\..{1,128}:[0-9]{1,9}");
    private static final Pattern INDEX = Pattern.compile("[._:-]?[0-9]*");
    private static final Pattern NAMELESS = Pattern.compile("(?:call|tool|functions?)?[._:-]?[0-9]*");

    KimiCalls(ToolSchemas tools, List<ChatMessage> history) {
        super(tools, history);
    }

    @Override
    @Nullable ToolCall read(String text, boolean whole) {
        int mark = text.indexOf(ARGUMENTS);
        int brace = text.indexOf('{');
        if (mark < 0 && brace < 0) {
            return null;
        }
        String id = Blank.strip(text.substring(0, mark < 0 ? brace : mark));
        String arguments = Blank.strip(text.substring(mark < 0 ? brace : mark + ARGUMENTS.length()));
        if (arguments.isEmpty() && whole) {
            arguments = "{}";
        }
        String name = JsonText.isObject(arguments) ? name(id, arguments) : null;
        if (name == null) {
            return null;
        }
        boolean kept = CANONICAL.matcher(id).matches() && takeId(id);
        return new ToolCall(kept ? id : newId(PREFIX + "." + name + ":"), name, arguments);
    }

    private @Nullable String name(String id, String arguments) {
        Matcher numbered = NUMBERED.matcher(id);
        String written = numbered.matches() ? numbered.group(1) : "";
        String declared = tools.has(written) ? written : declared(id);
        if (declared != null) {
            return declared;
        }
        if (isName(written) && !NAMELESS.matcher(written).matches()) {
            return written;
        }
        return NAMELESS.matcher(id).matches() ? tools.taking(keys(arguments)) : null;
    }

    /// The declared tool that an id names, whatever joins prefix, name and index; null if none.
    private @Nullable String declared(String id) {
        String bare = id.startsWith(PREFIX) ? id.substring(PREFIX.length()) : id;
        String joined = !bare.isEmpty() && "._:-".indexOf(bare.charAt(0)) >= 0 ? bare.substring(1) : bare;
        for (String candidate : new String[] {id, joined}) {
            for (String name : tools.longestFirst()) {
                if (candidate.startsWith(name) && INDEX.matcher(candidate.substring(name.length())).matches()) {
                    return name;
                }
            }
        }
        return null;
    }
}
