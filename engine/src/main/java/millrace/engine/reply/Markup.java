package millrace.engine.reply;

import java.util.ArrayList;
import java.util.List;
import millrace.engine.reply.Marker.Kind;
import org.jspecify.annotations.Nullable;

/// The markup of one chat format. Every marker begins with `<`, and none is the beginning of another.
///
/// @param form how calls are written
/// @param markers all of it
record Markup(CallForm form, List<Marker> markers) {
    Markup {
        markers = List.copyOf(markers);
    }

    static Markup of(boolean thinks, CallForm form) {
        List<Marker> all = new ArrayList<>();
        if (thinks) {
            all.add(new Marker("<think>", Kind.THINK));
            all.add(new Marker("</think>", Kind.END_THINK));
        }
        switch (form) {
            case NONE -> {}
            case GLM -> {
                calls(all, "<tool_call>", "</tool_call>");
                all.add(new Marker("<arg_key>", Kind.INNER));
                all.add(new Marker("</arg_key>", Kind.INNER));
                all.add(new Marker("<arg_value>", Kind.VALUE));
                all.add(new Marker("</arg_value>", Kind.END_VALUE));
            }
            case KIMI -> {
                calls(all, "<|tool_call_begin|>", "<|tool_call_end|>");
                all.add(new Marker(KimiCalls.ARGUMENTS, Kind.INNER));
                for (String section : new String[] {"calls", "call"}) {
                    all.add(new Marker("<|tool_" + section + "_section_begin|>", Kind.SECTION));
                    all.add(new Marker("<|tool_" + section + "_section_end|>", Kind.SECTION));
                }
            }
            case JSON -> calls(all, "<tool_call>", "</tool_call>");
        }
        return new Markup(form, all);
    }

    private static void calls(List<Marker> all, String begin, String end) {
        all.add(new Marker(begin, Kind.CALL));
        all.add(new Marker(end, Kind.END_CALL));
    }

    /// What stands at this place of a text, or begins there as far as the text goes; null if neither. Of a text that ends
    /// early it may be one of several.
    ///
    /// @param counting markers that mean something there
    static @Nullable Marker at(CharSequence text, int at, List<Marker> counting) {
        for (Marker marker : counting) {
            if (marker.mayStandAt(text, at)) {
                return marker;
            }
        }
        return null;
    }

    /// What means something in the middle of reasoning: what ends it. Kimi's calls do, since they are single tokens that
    /// stand for nothing else; where reasoning spells out a call in words, it is still a thought.
    List<Marker> inReasoning() {
        return form == CallForm.KIMI ? markers : thoughts();
    }

    /// What begins and ends reasoning.
    List<Marker> thoughts() {
        return only(Kind.THINK, Kind.END_THINK);
    }

    /// What means something in a call.
    List<Marker> inCall() {
        return only(Kind.SECTION, Kind.CALL, Kind.END_CALL, Kind.INNER, Kind.VALUE, Kind.END_VALUE);
    }

    /// What means something in the value of an argument.
    List<Marker> inValue() {
        return only(Kind.END_VALUE);
    }

    private List<Marker> only(Kind... kinds) {
        return markers.stream().filter(marker -> List.of(kinds).contains(marker.kind())).toList();
    }

    /// Whether arguments are one JSON object.
    boolean hasStrings() {
        return form == CallForm.JSON || form == CallForm.KIMI;
    }

    /// Whether markup inside a JSON string is part of the string.
    boolean protectsStrings() {
        return form == CallForm.JSON;
    }
}
