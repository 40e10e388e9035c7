package millrace.streams.drill;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/// Counts what was sent and what came of it. Used by several threads.
final class DrillTally {
    /// Where a record lies in the prompts topic.
    private record Place(int partition, long offset) {}

    /// A prompt was acknowledged (+1) or its first completion came (-1).
    private record Step(long nanos, int change) {}

    private static final class Sent {
        final boolean poison;
        final long dueNanos;
        Place place = new Place(-1, -1);
        boolean acknowledged;
        int outcomes;
        long answeredNanos;

        Sent(boolean poison, long dueNanos) {
            this.poison = poison;
            this.dueNanos = dueNanos;
        }
    }

    private final Map<String, Sent> byId = new HashMap<>();
    private final Map<Place, Integer> leaves = new HashMap<>();
    private final Map<String, Integer> leavesByInstance = new TreeMap<>();
    private final Map<Integer, List<Step>> steps = new TreeMap<>();
    private int failed;
    private int acknowledged;
    private int answered;
    private int refused;

    synchronized void sends(String id, boolean poison, long dueNanos) {
        byId.put(id, new Sent(poison, dueNanos));
    }

    synchronized void acknowledged(String id, int partition, long offset, long nanos) {
        Sent sent = byId.get(id);
        sent.acknowledged = true;
        sent.place = new Place(partition, offset);
        acknowledged++;
        if (!sent.poison) {
            step(partition, nanos, 1);
        }
    }

    /// The cluster did not take the record, or did not say so: whether it is there is unknown, and nothing is expected of it.
    synchronized void notSent(String id) {
        refused++;
        byId.remove(id);
    }

    /// A completion, or for poison a dead letter.
    synchronized void outcome(String id, int partition, boolean failure, long nanos) {
        Sent sent = byId.get(id);
        if (sent == null) {
            return;
        }
        failed += failure ? 1 : 0;
        if (sent.outcomes++ == 0) {
            answered++;
            sent.answeredNanos = nanos;
            if (!sent.poison) {
                step(partition, nanos, -1);
            }
        }
    }

    synchronized void leaf(int partition, long offset, String instance) {
        leaves.merge(new Place(partition, offset), 1, Integer::sum);
        leavesByInstance.merge(instance, 1, Integer::sum);
    }

    private void step(int partition, long nanos, int change) {
        steps.computeIfAbsent(partition, p -> new ArrayList<>()).add(new Step(nanos, change));
    }

    synchronized int count() {
        return acknowledged;
    }

    synchronized int answers() {
        return answered;
    }

    synchronized int refused() {
        return refused;
    }

    /// Whether everything that was acknowledged has an outcome and a leaf.
    synchronized boolean isComplete() {
        return byId.values().stream().allMatch(
                sent -> sent.acknowledged && sent.outcomes > 0 && leaves.containsKey(sent.place));
    }

    synchronized DrillReport report(long nowNanos) {
        List<Sent> all = byId.values().stream().filter(sent -> sent.acknowledged).toList();
        List<Sent> prompts = all.stream().filter(sent -> !sent.poison).toList();
        double[] latencies = prompts.stream().filter(sent -> sent.outcomes > 0)
                .mapToDouble(sent -> (sent.answeredNanos - sent.dueNanos) / 1e6).toArray();
        Map<Integer, Long> gaps = new TreeMap<>();
        steps.forEach((partition, list) -> gaps.put(partition, longestGapMs(list, nowNanos)));
        long first = prompts.stream().mapToLong(sent -> sent.dueNanos).min().orElse(nowNanos);
        long last = prompts.stream().filter(sent -> sent.outcomes > 0).mapToLong(sent -> sent.answeredNanos).max().orElse(first);
        return new DrillReport(
                prompts.size(), all.size() - prompts.size(),
                (int) all.stream().filter(sent -> sent.outcomes == 0).count(),
                all.stream().mapToInt(sent -> Math.max(0, sent.outcomes - 1)).sum(),
                (int) all.stream().filter(sent -> !leaves.containsKey(sent.place)).count(),
                all.stream().mapToInt(sent -> Math.max(0, leaves.getOrDefault(sent.place, 1) - 1)).sum(),
                failed, DrillReport.quantile(latencies, 0.5), DrillReport.quantile(latencies, 0.99), DrillReport.quantile(latencies, 1),
                gaps.values().stream().mapToLong(Long::longValue).max().orElse(0), gaps, leavesByInstance, (last - first) / 1e9);
    }

    private static long longestGapMs(List<Step> steps, long nowNanos) {
        List<Step> inOrder = new ArrayList<>(steps);
        inOrder.sort(Comparator.comparingLong(Step::nanos));
        long longest = 0;
        long since = 0;
        int open = 0;
        for (Step step : inOrder) {
            // A completion that is seen before the acknowledgement of its prompt opens nothing.
            if (step.change < 0 && open > 0) {
                longest = Math.max(longest, step.nanos - since);
            }
            if (step.change < 0 || open <= 0) {
                since = step.nanos;
            }
            open += step.change;
        }
        return (open > 0 ? Math.max(longest, nowNanos - since) : longest) / 1_000_000;
    }
}
