package millrace.streams.drill;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/// What came of the records that a drill sent: each prompt has one committed completion and one leaf, each record that is
/// no prompt one dead letter and one leaf, or the drill has found something.
///
/// @param prompts that the cluster has acknowledged
/// @param poison records that are no prompts, among them
/// @param lost prompts without a completion, and poison without a dead letter
/// @param doubled completions and dead letters beyond the first of their record
/// @param unattested records without a leaf
/// @param attestedTwice leaves beyond the first of their record
/// @param failed answers with finish `failed` or `rejected`
/// @param p50Ms from the moment a prompt was due to its committed completion, in milliseconds; NaN without one
/// @param longestGapMs the longest time for which a partition had prompts and no completion came from it, in milliseconds: after a
///        fault, the recovery of the partition that took longest
/// @param gapsMs the same of each partition
/// @param leavesByInstance how many of the leaves each process made
/// @param seconds from the first prompt to the last completion
public record DrillReport(
        int prompts, int poison, int lost, int doubled, int unattested, int attestedTwice, int failed,
        double p50Ms, double p99Ms, double maxMs, long longestGapMs, Map<Integer, Long> gapsMs,
        Map<String, Integer> leavesByInstance, double seconds) {
    private static final ObjectMapper JSON = new ObjectMapper();

    public DrillReport {
        gapsMs = new TreeMap<>(gapsMs);
        leavesByInstance = new TreeMap<>(leavesByInstance);
    }

    /// Whether everything that was sent came out once.
    public boolean isWell() {
        return lost == 0 && doubled == 0 && unattested == 0 && attestedTwice == 0;
    }

    /// @param quantile from 0 to 1
    static double quantile(double[] values, double quantile) {
        double[] sorted = values.clone();
        Arrays.sort(sorted);
        return sorted.length == 0 ? Double.NaN : sorted[Math.max(0, (int) Math.ceil(quantile * sorted.length) - 1)];
    }

    /// The report for people.
    public String text() {
        return String.format(Locale.ROOT, """
                %d prompts and %d records that are none, in %.0f s
                lost %d, doubled %d, without a leaf %d, with more than one %d; answered with failed or rejected: %d
                latency p50 %.0f ms, p99 %.0f ms, max %.0f ms
                longest time that a partition had prompts and gave no completion: %.1f s %s
                leaves by instance: %s
                verdict: %s
                """, prompts, poison, seconds, lost, doubled, unattested, attestedTwice, failed, p50Ms, p99Ms, maxMs,
                longestGapMs / 1e3, gapsMs, leavesByInstance, isWell() ? "ok" : "violated");
    }

    /// The report for programs, one line.
    public String json() {
        ObjectNode node = JSON.createObjectNode();
        node.put("verdict", isWell() ? "ok" : "violated").put("prompts", prompts).put("poison", poison).put("lost", lost)
                .put("doubled", doubled).put("unattested", unattested).put("attested_twice", attestedTwice).put("failed", failed)
                .put("p50_ms", p50Ms).put("p99_ms", p99Ms).put("max_ms", maxMs)
                .put("longest_gap_ms", longestGapMs).put("seconds", seconds);
        ObjectNode gaps = node.putObject("gap_ms_by_partition");
        gapsMs.forEach((partition, gap) -> gaps.put(partition.toString(), gap));
        ObjectNode leaves = node.putObject("leaves_by_instance");
        leavesByInstance.forEach(leaves::put);
        return node.toString();
    }
}
