package millrace.streams.cli;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.List;
import millrace.schemas.Delta;
import millrace.schemas.DeltaKind;
import millrace.schemas.ToolCall;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

class PreviewLinesTest {
    private final List<String> lines = new ArrayList<>();

    private static Delta delta(String id, long attempt, long seq, DeltaKind kind, String text) {
        return of(null, id, attempt, seq, kind, text);
    }

    private static Delta of(@Nullable String tenant, String id, long attempt, long seq, DeltaKind kind, String text) {
        ToolCall call = kind == DeltaKind.TOOL_CALL ? new ToolCall("c", "weather", "{\"city\":\"Paris\"}") : null;
        return new Delta(id, tenant, attempt, seq, kind, text, call, (int) seq + 1, 7L);
    }

    private PreviewLines previews(boolean json, Delta... deltas) {
        PreviewLines previews = new PreviewLines(json, 3, lines::add);
        for (Delta delta : deltas) {
            previews.take(delta);
        }
        return previews;
    }

    @Test
    void eachLineSaysWhoseItIs() {
        PreviewLines previews = previews(false, delta("a", 1, 0, DeltaKind.REASONING, "hm"), delta("b", 1, 0, DeltaKind.CONTENT, "x\ty\\\n"),
                delta("a", 1, 1, DeltaKind.TOOL_CALL, ""), delta("a", 1, 2, DeltaKind.END, ""));
        assertThat(lines).containsExactly("a\tREASONING\thm", "b\tCONTENT\tx\\ty\\\\\\n",
                "a\tTOOL_CALL\tweather({\"city\":\"Paris\"})", "a\tEND\t");
        assertThat(previews.ended()).isEqualTo(1);
    }

    @Test
    void aGapSaysHowManyAreMissingAndWhatComesTwiceIsShownOnce() {
        previews(false, delta("a", 1, 0, DeltaKind.CONTENT, "1"), delta("a", 1, 0, DeltaKind.CONTENT, "1"),
                delta("a", 1, 3, DeltaKind.CONTENT, "4"), delta("b", 1, 2, DeltaKind.CONTENT, "from the middle"));
        assertThat(lines).containsExactly("a\tCONTENT\t1", "a\tGAP\t2", "a\tCONTENT\t4", "b\tGAP\t2", "b\tCONTENT\tfrom the middle");
    }

    @Test
    void anotherAttemptAndARestartVoidWhatWasShownOnce() {
        previews(false, delta("a", 1, 0, DeltaKind.CONTENT, "1"), delta("a", 2, 0, DeltaKind.CONTENT, "x"),
                delta("a", 1, 1, DeltaKind.CONTENT, "of the old one"), delta("a", 2, 1, DeltaKind.RESTART, ""),
                delta("a", 2, 2, DeltaKind.CONTENT, "y"));
        assertThat(lines).containsExactly("a\tCONTENT\t1", "a\tRESTART\t", "a\tCONTENT\tx", "a\tRESTART\t", "a\tCONTENT\ty");
    }

    /// A tenant may use the id that another one uses.
    @Test
    void requestsOfTwoTenantsAreTwo() {
        previews(false, of("t", "a", 1, 0, DeltaKind.CONTENT, "1"), of("u", "a", 1, 0, DeltaKind.CONTENT, "2"));
        assertThat(lines).containsExactly("a\tCONTENT\t1", "a\tCONTENT\t2");
    }

    @Test
    void linesOfJsonHaveTheFieldsOfTheRecord() throws Exception {
        previews(true, of("t", "a", 5, 1, DeltaKind.CONTENT, "é\n"), of("t", "a", 6, 0, DeltaKind.TOOL_CALL, ""));
        ObjectMapper json = new ObjectMapper();
        List<Object> read = new ArrayList<>();
        for (String line : lines) {
            read.add(json.readTree(line));
        }
        assertThat(read).containsExactly(
                json.readTree("{\"request_id\":\"a\",\"tenant\":\"t\",\"attempt\":5,\"kind\":\"GAP\",\"lost\":1}"),
                json.readTree("{\"request_id\":\"a\",\"tenant\":\"t\",\"attempt\":5,\"kind\":\"CONTENT\",\"seq\":1,\"text\":\"é\\n\","
                        + "\"tokens\":2,\"sampled_us\":7}"),
                json.readTree("{\"request_id\":\"a\",\"tenant\":\"t\",\"attempt\":6,\"kind\":\"RESTART\"}"),
                json.readTree("{\"request_id\":\"a\",\"tenant\":\"t\",\"attempt\":6,\"kind\":\"TOOL_CALL\",\"seq\":0,\"text\":\"\","
                        + "\"tool_call\":{\"id\":\"c\",\"name\":\"weather\",\"arguments\":\"{\\\"city\\\":\\\"Paris\\\"}\"},\"tokens\":1,"
                        + "\"sampled_us\":7}"));
    }

    /// However many requests pass by, so many are remembered: those that were heard of last.
    @Test
    void onlySoManyAreRemembered() {
        PreviewLines previews = previews(false, delta("a", 1, 0, DeltaKind.CONTENT, ""), delta("b", 1, 0, DeltaKind.CONTENT, ""),
                delta("c", 1, 0, DeltaKind.CONTENT, ""), delta("a", 1, 1, DeltaKind.CONTENT, ""), delta("d", 1, 0, DeltaKind.CONTENT, ""));
        lines.clear();
        previews.take(delta("a", 1, 2, DeltaKind.CONTENT, "known"));
        previews.take(delta("b", 1, 1, DeltaKind.CONTENT, "forgotten"));
        assertThat(lines).containsExactly("a\tCONTENT\tknown", "b\tGAP\t1", "b\tCONTENT\tforgotten");
    }
}
