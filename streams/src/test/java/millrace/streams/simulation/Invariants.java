package millrace.streams.simulation;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import millrace.engine.IntegrityEvent;
import millrace.integrity.CompletionMatcher;
import millrace.integrity.LogVerifier;
import millrace.integrity.TenantKey;
import millrace.integrity.Verdict;
import millrace.schemas.AlarmRecord;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.AuditVerdict;
import millrace.schemas.Completion;
import millrace.schemas.FinishReason;
import millrace.schemas.SuspectRange;
import millrace.streams.TopologyParts;
import org.apache.kafka.common.header.Header;
import org.jspecify.annotations.Nullable;

/// What must hold over the committed topics.
///
/// - I1: each prompt that was taken in has exactly one end: an answer, a dead letter, or that it repeats another.
/// - I2: each end has exactly one leaf, and each leaf of an end has that end.
/// - I3: the logs verify: sequence, chain, roots, checkpoints, epochs.
/// - I4: an answer that was computed with what was found damaged is in a suspect range; one that was computed again says so.
/// - I5: every answer is, byte for byte, that of a run without faults, or an honest failure.
/// - I6: what was consumed has ended, waits, or repeats another.
/// Orders are held to I2 and I6 as well: each that can be read has exactly one leaf, and a salt that is erased stays so.
/// - I7: neither prompts nor tenants' names stand in the logs, in leaves, in checkpoints, or in messages.
/// - I8: what ends as cancelled was cancelled by its own client and is the beginning of its answer; and what was cancelled
///   before it came, or before it was taken up again, is not computed.
final class Invariants {
    private static final byte[] NO_VALUE = {-1, -1};
    private static final Set<String> HONEST = Set.of("ENGINE_NUMERIC", "OVERLOADED");

    private final Simulation simulation;
    /// How many prompts of a partition have the same bytes.
    private final Map<Integer, Map<ByteBuffer, Integer>> alike = new HashMap<>();
    private long counted;

    Invariants(Simulation simulation) {
        this.simulation = simulation;
    }

    private record Position(int partition, long offset) {}

    private static void require(boolean holds, String invariant, String what) {
        if (!holds) {
            throw new Violation(invariant, what, null);
        }
    }

    private List<Broker.Placed> committed(String topic, int partition) {
        return simulation.world.broker.log(topic, partition).settled();
    }

    /// The ends of prompts that are in the log, by the prompt's position.
    private Map<Position, AttestationRecord> ends() {
        Map<Position, AttestationRecord> ends = new LinkedHashMap<>();
        for (int partition = 0; partition < Broker.PARTITIONS; partition++) {
            for (Broker.Placed placed : committed(TopologyParts.AUDIT, partition)) {
                AttestationRecord leaf = TopologyParts.leaf(placed.entry().value());
                boolean end = leaf.getEvent() == AuditEvent.INFERENCE || leaf.getEvent() == AuditEvent.REFUSED;
                if (end && !leaf.getInTopic().equals(TopologyParts.CONTROL)) {
                    Position position = new Position(leaf.getInPartition(), leaf.getInOffset());
                    require(ends.put(position, leaf) == null, "I1", position + " has two ends");
                }
            }
        }
        return ends;
    }

    /// I6 at any time: what lies before the committed offset has ended, or waits in the store, or repeats another prompt.
    void checkCommitted() {
        Map<Position, AttestationRecord> ends = ends();
        for (int partition = 0; partition < Broker.PARTITIONS; partition++) {
            Set<Long> pending = pending(partition);
            long next = simulation.world.broker.committedOffset(partition);
            for (Broker.Placed placed : committed(TopologyParts.PROMPTS, partition)) {
                boolean ended = ends.containsKey(new Position(partition, placed.offset()));
                boolean waits = pending.contains(placed.offset());
                String where = "prompt " + partition + "/" + placed.offset();
                require(!(ended && waits), "I6", where + " has ended and waits all the same");
                require(placed.offset() < next || !ended && !waits, "I6", where + " is ahead of the committed offset");
                require(placed.offset() >= next || ended || waits || repeats(placed, partition), "I6", where + " is lost");
            }
        }
        checkOrders();
    }

    /// I2 and I6 of orders: those before the committed offset have one leaf each, or cannot be read; the others have none.
    private void checkOrders() {
        for (int partition = 0; partition < Broker.PARTITIONS; partition++) {
            Map<Long, Integer> leaves = new HashMap<>();
            for (Broker.Placed placed : committed(TopologyParts.AUDIT, partition)) {
                AttestationRecord leaf = TopologyParts.leaf(placed.entry().value());
                if (leaf.getInTopic().equals(TopologyParts.CONTROL)) {
                    leaves.merge(leaf.getInOffset(), 1, Integer::sum);
                    if (leaf.getEvent() == AuditEvent.RETRACT && leaf.getDetail().equals("scope=request")) {
                        requireErased(leaf.getSuspect());
                    }
                }
            }
            long next = simulation.world.broker.committedOrders(partition);
            for (Broker.Placed placed : committed(TopologyParts.CONTROL, partition)) {
                boolean expected = placed.offset() < next && simulation.orders.isOrder(placed.entry());
                require(leaves.getOrDefault(placed.offset(), 0) == (expected ? 1 : 0), "I2",
                        "order " + partition + "/" + placed.offset() + " has " + leaves.getOrDefault(placed.offset(), 0) + " leaves");
            }
        }
    }

    private void requireErased(@Nullable SuspectRange range) {
        require(range != null, "I2", "an erasure of no leaf");
        ByteBuffer name = ByteBuffer.wrap(
                TenantKey.saltKey(range.getOrigin(), range.getFromSeq()).getBytes(StandardCharsets.UTF_8));
        for (int partition = 0; partition < Broker.PARTITIONS; partition++) {
            byte[] last = null;
            for (Broker.Placed placed : committed(TopologyParts.SALTS_TOPIC, partition)) {
                if (placed.entry().key() != null && ByteBuffer.wrap(placed.entry().key()).equals(name)) {
                    last = placed.entry().value();
                }
            }
            require(last == null, "I7", "the salt of leaf " + range.getFromSeq() + " of " + range.getOrigin() + " was erased and is there");
        }
    }

    private Set<Long> pending(int partition) {
        Map<Long, byte[]> store = new HashMap<>();
        for (Broker.Placed change : committed("changelog-pending", partition)) {
            long offset = ByteBuffer.wrap(change.entry().key()).getLong();
            if (change.entry().value() == null) {
                store.remove(offset);
            } else {
                store.put(offset, change.entry().value());
            }
        }
        return store.keySet();
    }

    /// The requests of the prompts that are pending, by their offset.
    Map<Long, String> pendingRequests(int partition) {
        Map<Long, String> requests = new TreeMap<>();
        for (long offset : pending(partition)) {
            String request = simulation.request(partition, offset);
            if (request != null) {
                requests.put(offset, request);
            }
        }
        return requests;
    }

    /// Whether another record of the partition has the same bytes.
    private boolean repeats(Broker.Placed placed, int partition) {
        if (counted != simulation.inputs.size()) {
            counted = simulation.inputs.size();
            alike.clear();
            simulation.inputs.forEach(input -> alike.computeIfAbsent(input.partition(), p -> new HashMap<>())
                    .merge(bytes(input.entry()), 1, Integer::sum));
        }
        return alike.get(partition).get(bytes(placed.entry())) > 1;
    }

    private static ByteBuffer bytes(Broker.Entry entry) {
        return ByteBuffer.wrap(entry.value() == null ? NO_VALUE : entry.value());
    }

    /// Everything, once all has run dry.
    ///
    /// @param calm a run over the same prompts in which nothing went wrong
    /// @param logLines what was logged
    void checkAll(Simulation calm, List<String> logLines) {
        checkCommitted();
        Map<Position, AttestationRecord> ends = ends();
        checkLogs();
        checkDeadLetters(ends);
        Map<Position, Completion> answers = answers(ends);
        Map<Position, Completion> expected = calm.invariants().answers(calm.invariants().ends());
        checkEnds(ends, calm.invariants().ends());
        checkAnswers(answers, expected, ends);
        checkEvents(ends);
        checkSecrets(logLines);
    }

    /// I2 and I3: as an auditor does it.
    private void checkLogs() {
        LogVerifier log = new LogVerifier(TopologyParts.AUDIT, List.of(World.firstSigner().verifier()), TopologyParts.schemas());
        log.expecting(TopologyParts.DOMAIN, TopologyParts.CLUSTER);
        CompletionMatcher matcher = new CompletionMatcher(TopologyParts.COMPLETIONS, TopologyParts.schemas());
        for (int partition = 0; partition < Broker.PARTITIONS; partition++) {
            for (Broker.Placed placed : committed(TopologyParts.COMPLETIONS, partition)) {
                matcher.completion(new Verdict.Place(TopologyParts.COMPLETIONS, partition, placed.offset()), placed.entry().value(), null);
            }
            for (Broker.Placed placed : committed(TopologyParts.CHECKPOINTS, partition)) {
                log.checkpoint(new Verdict.Place(TopologyParts.CHECKPOINTS, partition, placed.offset()), placed.entry().value());
            }
            for (Broker.Placed placed : committed(TopologyParts.AUDIT, partition)) {
                LogVerifier.Checked checked = log.leaf(partition, placed.offset(), placed.entry().value());
                require(checked != null, "I3", String.valueOf(log.violation()));
                matcher.leaf(checked);
            }
        }
        // Whether the newest log of each partition is signed to its end is asked below; of one whose state was lost
        // before it was ever signed nothing more can come.
        require(log.leaves() == 0 || log.verdict().equals(Verdict.VERIFIED)
                || log.verdict() instanceof Verdict.Undecided open && open.code().equals("CHECKPOINT_MISSING"), "I3", log.verdict().toString());
        require(matcher.verdict().equals(Verdict.VERIFIED), "I2", matcher.verdict().toString());
        Map<Integer, LogVerifier.LogStatus> newest = new TreeMap<>();
        log.logs().stream().filter(status -> status.size() > 0).forEach(status -> newest.merge(
                status.origin().partition(), status, (a, b) -> a.origin().epoch() > b.origin().epoch() ? a : b));
        newest.values().forEach(status ->
                require(status.checkpointed() == status.size(), "I3", status + ": its end is not signed"));
    }

    /// I2: dead letters and the leaves that say so.
    private void checkDeadLetters(Map<Position, AttestationRecord> ends) {
        Set<Position> letters = new HashSet<>();
        for (int partition = 0; partition < Broker.PARTITIONS; partition++) {
            for (Broker.Placed placed : committed(TopologyParts.DEAD_LETTERS, partition)) {
                long offset = Long.parseLong(header(placed, "__streams.errors.offset"));
                require(letters.add(new Position(partition, offset)), "I1", "prompt " + partition + "/" + offset + " has two dead letters");
            }
        }
        Set<Position> attested = new HashSet<>();
        ends.forEach((position, leaf) -> {
            if (leaf.getOutTopic().equals(TopologyParts.DEAD_LETTERS)) {
                attested.add(position);
            }
        });
        require(letters.equals(attested), "I2", "dead letters " + letters + ", and leaves that say so " + attested);
    }

    private static String header(Broker.Placed placed, String name) {
        Header header = placed.entry().headers().lastHeader(name);
        return header == null ? "" : new String(header.value(), StandardCharsets.UTF_8);
    }

    private Map<Position, Completion> answers(Map<Position, AttestationRecord> ends) {
        Map<String, Position> bySeq = new HashMap<>();
        ends.forEach((position, leaf) -> bySeq.put(leaf.getLogOrigin() + "#" + leaf.getSeq(), position));
        Map<Position, Completion> answers = new LinkedHashMap<>();
        for (int partition = 0; partition < Broker.PARTITIONS; partition++) {
            for (Broker.Placed placed : committed(TopologyParts.COMPLETIONS, partition)) {
                Completion completion = TopologyParts.completion(placed.entry().value());
                Position position = bySeq.get(completion.getAudit().getOrigin() + "#" + completion.getAudit().getSeq());
                require(position != null, "I2", "the completion of " + completion.getRequestId() + " has no leaf");
                answers.put(position, completion);
            }
        }
        return answers;
    }

    /// I1 and I6: every prompt has ended, or repeats one that has.
    private void checkEnds(Map<Position, AttestationRecord> ends, Map<Position, AttestationRecord> calmEnds) {
        for (int partition = 0; partition < Broker.PARTITIONS; partition++) {
            for (Broker.Placed placed : committed(TopologyParts.PROMPTS, partition)) {
                Position position = new Position(partition, placed.offset());
                require(ends.containsKey(position) || repeats(placed, partition), "I1", position + " has no end");
                // Where a prompt could not be read at once, another of its id may have been first.
                require(simulation.registryFailed || ends.containsKey(position) == calmEnds.containsKey(position), "I1",
                        position + (ends.containsKey(position) ? " was answered, and repeats another" : " has no end"));
            }
        }
    }

    private void checkAnswers(
            Map<Position, Completion> answers, Map<Position, Completion> expected, Map<Position, AttestationRecord> ends) {
        Map<String, List<Completion>> byId = new TreeMap<>();
        answers.forEach((position, answer) -> {
            byId.computeIfAbsent(position.partition() + " " + answer.getTenant() + " " + answer.getRequestId(), id -> new ArrayList<>())
                    .add(answer);
            if (!simulation.clockDecides(position.partition(), position.offset())) {
                checkAnswer(position, answer, expected.get(position), ends.get(position));
            }
        });
        byId.forEach((id, all) -> {
            long served = all.stream().filter(answer -> !"DUPLICATE_ID_CONFLICT".equals(answer.getErrorCode())).count();
            require(served == 1, "I1", id + " was served " + served + " times");
        });
    }

    private void checkAnswer(Position position, Completion answer, @Nullable Completion expected, AttestationRecord leaf) {
        String code = answer.getErrorCode();
        if (answer.getFinishReason() == FinishReason.failed && simulation.enginesFailedPrompts && HONEST.contains(code)) {
            require(leaf.getVerdict() == AuditVerdict.FAILED && answer.getText().isEmpty(), "I4", position + " failed, and does not say so");
            return;
        }
        if (simulation.registryFailed && (expected == null || "DUPLICATE_ID_CONFLICT".equals(code)
                || "DUPLICATE_ID_CONFLICT".equals(expected.getErrorCode()))) {
            return;
        }
        require(expected != null, "I5", position + " was answered, and is not without faults");
        String request = simulation.request(position.partition(), position.offset());
        if (answer.getFinishReason() == FinishReason.cancelled) {
            require(simulation.cancellations.mayEnd(position.partition(), request), "I8", position + " was cancelled by nobody");
            if (expected.getText().startsWith(answer.getText())) {
                return;
            }
        } else {
            require(request == null || answer.getFinishReason() == FinishReason.rejected
                    || !simulation.cancellations.mustEnd(position.partition(), position.offset(), request), "I8",
                    position + " was cancelled, and was answered all the same");
        }
        if (facts(answer).equals(facts(expected))) {
            return;
        }
        String differs = position + ": expected " + facts(expected) + ", got " + facts(answer);
        require(answer.getText().startsWith(SimulatedEngine.RUBBISH), "I5", differs);
        require(isSuspect(leaf) || isBeyondKnowledge(leaf), "I4", differs);
    }

    /// Whether nobody can name this answer: the process that gave it has ended, and with it the memory that was damaged and
    /// what it knew of its steps; or the log belongs to another process now.
    private boolean isBeyondKnowledge(AttestationRecord leaf) {
        return !simulation.owner(leaf.getInPartition()).equals(leaf.getInstanceId());
    }

    /// I4: events name only answers of the process that found them, answers say whether they were computed again, and
    /// there is an alarm for every fault, and none without.
    private void checkEvents(Map<Position, AttestationRecord> ends) {
        for (int partition = 0; partition < Broker.PARTITIONS; partition++) {
            for (Broker.Placed placed : committed(TopologyParts.AUDIT, partition)) {
                AttestationRecord fault = TopologyParts.leaf(placed.entry().value());
                if (fault.getEvent() == AuditEvent.FAULT) {
                    require(simulation.alarming, "I4", "a fault is in the log and nothing was wrong: " + fault.getDetail());
                    ends.values().stream().filter(leaf -> names(fault.getSuspect(), leaf)).forEach(leaf -> require(
                            leaf.getInstanceId().equals(fault.getInstanceId()), "I4",
                            fault.getInstanceId() + " suspects leaf " + leaf.getSeq() + " of " + leaf.getInstanceId()));
                }
            }
        }
        ends.forEach((position, leaf) -> require(
                leaf.getVerdict() != AuditVerdict.OK || leaf.getRecomputedSteps() == 0 && leaf.getKvMismatches() == 0, "I4",
                position + " was computed again, and does not say so"));
        List<AlarmRecord> alarms = simulation.world.alarms;
        require(simulation.alarming || alarms.isEmpty(), "I4", "a false alarm: " + alarms);
        for (Process process : simulation.processes()) {
            for (IntegrityEvent event : process.engine().found()) {
                long raised = alarms.stream()
                        .filter(alarm -> alarm.getInstanceId().equals(process.instance()) && alarm.getEvent() == event.number()).count();
                require(raised == (event.result() == IntegrityEvent.Result.PASSED ? 0 : 1), "I4",
                        raised + " alarms for event " + event.number() + " of " + process.instance());
            }
        }
        alarms.forEach(alarm -> require(!alarm.toString().contains(Inputs.SECRET), "I7", "an alarm tells a prompt: " + alarm));
    }

    private static boolean names(@Nullable SuspectRange range, AttestationRecord leaf) {
        return range != null && range.getOrigin().equals(leaf.getLogOrigin()) && range.getFromSeq() <= leaf.getSeq()
                && leaf.getSeq() <= range.getToSeq();
    }

    /// Whether a FAULT leaf says that this one's answer may be wrong.
    private boolean isSuspect(AttestationRecord leaf) {
        for (int partition = 0; partition < Broker.PARTITIONS; partition++) {
            for (Broker.Placed placed : committed(TopologyParts.AUDIT, partition)) {
                AttestationRecord other = TopologyParts.leaf(placed.entry().value());
                // What an operator withdraws excuses nobody.
                if (other.getEvent() != AuditEvent.RETRACT && names(other.getSuspect(), leaf)) {
                    return true;
                }
            }
        }
        return false;
    }

    /// What must be the same in any run.
    private static List<Object> facts(Completion answer) {
        List<Object> facts = new ArrayList<>();
        facts.add(answer.getRequestId());
        facts.add(String.valueOf(answer.getTenant()));
        facts.add(answer.getText());
        facts.add(String.valueOf(answer.getTokenIds()));
        facts.add(answer.getFinishReason());
        facts.add(answer.getUsage());
        facts.add(String.valueOf(answer.getErrorCode()));
        facts.add(answer.getSeed());
        facts.add(answer.getMetadata());
        return facts;
    }

    private void checkSecrets(List<String> logLines) {
        for (String line : logLines) {
            require(!line.contains(Inputs.SECRET), "I7", "a log line tells a prompt or a tenant: " + line);
        }
        for (int partition = 0; partition < Broker.PARTITIONS; partition++) {
            for (String topic : List.of(TopologyParts.AUDIT, TopologyParts.CHECKPOINTS)) {
                for (Broker.Placed placed : committed(topic, partition)) {
                    String text = new String(placed.entry().value(), StandardCharsets.ISO_8859_1);
                    require(!text.contains(Inputs.SECRET), "I7", topic + "/" + partition + "/" + placed.offset() + " tells a prompt");
                }
            }
            for (Broker.Placed placed : committed(TopologyParts.COMPLETIONS, partition)) {
                String message = String.valueOf(TopologyParts.completion(placed.entry().value()).getErrorMessage());
                require(!message.contains(Inputs.SECRET), "I7", "a message tells a prompt: " + message);
            }
            for (Broker.Placed placed : committed(TopologyParts.DEAD_LETTERS, partition)) {
                require(!header(placed, "__streams.errors.message").contains(Inputs.SECRET), "I7", "a dead letter's message tells a prompt");
            }
        }
    }
}
