package millrace.integrity.audit;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Map;
import millrace.integrity.Digest;
import millrace.integrity.LogVerifier.LogStatus;
import millrace.integrity.Origin;
import millrace.integrity.Verdict;
import millrace.integrity.Verdict.Place;
import millrace.integrity.Verdict.Refuted;
import millrace.integrity.Verdict.Undecided;
import millrace.integrity.Withdrawal;
import millrace.schemas.AuditEvent;
import org.junit.jupiter.api.Test;

class AuditReportTest {
    private static AuditReport report(Verdict verdict, boolean keys) {
        return new AuditReport(verdict, 12, 2, 11, 10, 4, 6, 1, 3, keys, true,
                List.of(new LogStatus(new Origin("a", "b", "c", 0, 1), 12, Digest.ZERO, 9)), Map.of(),
                Map.of("cuda on NVIDIA H200, compute capability 9.0", 10L), List.of(), 1.25);
    }

    @Test
    void rendersOneObject() {
        String log = "\"computed_by\":{\"cuda on NVIDIA H200, compute capability 9.0\":10},"
                + "\"logs\":[{\"origin\":\"a/b/c/0/1\",\"size\":12,\"checkpointed\":9,\"root\":\""
                + "0".repeat(64) + "\"}],\"withdrawn\":[],";
        String counts = "\"leaves\":12,\"checkpoints\":2,\"completions\":11,\"matched\":10,\"expired\":4,\"pruned\":6,"
                + "\"partitions\":1,\"tail_leaves\":3,\"signatures_checked\":true,\"completions_checked\":true,";
        assertThat(report(Verdict.VERIFIED, true).json())
                .isEqualTo("{\"verdict\":\"ok\"," + counts + log + "\"seconds\":1.250}");
        assertThat(report(new Undecided("LOG_EMPTY", "\"nothing\"\n"), true).json()).isEqualTo(
                "{\"verdict\":\"undecided\"," + counts + log
                        + "\"code\":\"LOG_EMPTY\",\"why\":\"\\\"nothing\\\"\\u000a\",\"seconds\":1.250}");
        assertThat(report(new Refuted("LOG_X", "what", "aa", "bb", new Place("t", 3, 4)), true).json())
                .isEqualTo("{\"verdict\":\"violated\"," + counts + log
                        + "\"violation\":{\"code\":\"LOG_X\",\"what\":\"what\",\"expected\":\"aa\",\"got\":\"bb\","
                        + "\"topic\":\"t\",\"partition\":3,\"offset\":4},\"seconds\":1.250}");
    }

    @Test
    void rendersLinesForPeople() {
        assertThat(report(new Refuted("LOG_X", "what", "aa", "bb", new Place("t", 3, 4)), false).text()).isEqualTo("""
                12 leaves in 1 logs of 1 partitions: sequence, chain and hashes checked
                2 checkpoints: roots checked, signatures NOT checked (no key given)
                10 answers computed by cuda on NVIDIA H200, compute capability 9.0
                11 completions read, 10 agree with their leaf and open its commitments
                4 leaves are older than the oldest completion in the topic
                6 completions are older than the oldest leaf in the topic
                3 leaves are newer than the last checkpoint
                verdict: VIOLATED (1.3 s)
                  t-3@4: LOG_X: what: expected aa, got bb
                """);
    }

    @Test
    void listsWhatIsWithdrawn() {
        List<Withdrawal> ranges = java.util.stream.LongStream.range(0, 22).mapToObj(i -> new Withdrawal(
                AuditEvent.RETRACT, "a/b/c/0/1", i, i + 1, "ERASURE", "scope=request", new Place("t", 3, i))).toList();
        AuditReport report = new AuditReport(Verdict.VERIFIED, 12, 2, 11, 10, 0, 0, 1, 0, true, true, List.of(), Map.of(),
                Map.of(), ranges, 1.25);
        assertThat(report.text()).contains("22 ranges of leaves are withdrawn or in doubt:\n"
                + "  RETRACT leaves 0 to 1 of a/b/c/0/1: ERASURE, scope=request (t-3@0)\n").contains("  and 2 more: see --json\n");
        assertThat(report.json()).contains("\"withdrawn\":[{\"event\":\"RETRACT\",\"origin\":\"a/b/c/0/1\",\"from_seq\":0,\"to_seq\":1,"
                + "\"reason\":\"ERASURE\",\"detail\":\"scope=request\",\"partition\":3,\"offset\":0},{");
    }

    @Test
    void hasTheExitCodesOfTheCommand() {
        assertThat(report(Verdict.VERIFIED, true).exitCode()).isZero();
        assertThat(report(new Refuted("C", "w", "e", "g"), true).exitCode()).isEqualTo(1);
        assertThat(report(new Undecided("C", "w"), true).exitCode()).isEqualTo(2);
        assertThat(report(new Refuted("C", "w", "e", "g"), true).firstViolation()).isNotNull();
    }

    @Test
    void optionsKeepPasswordsToThemselves() {
        AuditOptions options = new AuditOptions(Map.of("sasl.jaas.config", "secret"), "audit", null, null, List.of());
        assertThat(options.toString()).doesNotContain("secret");
    }
}
