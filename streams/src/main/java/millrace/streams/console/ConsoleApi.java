package millrace.streams.console;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.TreeSet;
import millrace.schemas.AlarmRecord;
import millrace.schemas.AttestationRecord;

/// The console's data as JSON: facts, state, the log's tail, and the proof of one leaf. Read-only, for the page; not an
/// interface to build on.
final class ConsoleApi {
    private static final JsonNodeFactory NODES = JsonNodeFactory.instance;
    private static final int MOST_ROWS = 200;

    private final Console.Setup setup;
    private final MeterReader meters;
    private final Samples samples;
    private final AuditTailView view;

    ConsoleApi(Console.Setup setup, MeterReader meters, Samples samples, AuditTailView view) {
        this.setup = setup;
        this.meters = meters;
        this.samples = samples;
        this.view = view;
    }

    Map<String, HttpDoor.Page> pages() {
        return Map.of(
                "/api/facts", query -> facts(),
                "/api/state", query -> state(Query.number(query, "since", 0)),
                "/api/tail", query -> tail(Query.number(query, "after", 0)),
                "/api/proof", query -> proof(query.getOrDefault("origin", ""), Query.number(query, "seq", -1)),
                "/api/schema", query -> schema(query.getOrDefault("fingerprint", "")));
    }

    private HttpDoor.Answer facts() {
        ObjectNode answer = NODES.objectNode();
        ArrayNode facts = answer.putArray("facts");
        setup.facts().forEach((name, value) -> facts.addObject().put("name", name).put("value", value));
        answer.put("vkey", setup.vkey());
        answer.put("audit", setup.topics().audit());
        return HttpDoor.Answer.json(200, answer.toString());
    }

    private HttpDoor.Answer state(long since) {
        ObjectNode answer = NODES.objectNode();
        Health health = setup.health().get();
        ObjectNode checks = answer.putObject("checks");
        new TreeMap<>(health.ready()).forEach(checks::put);
        ArrayNode points = answer.putArray("points");
        samples.after(since).forEach(point -> points.add(point(point)));
        ArrayNode partitions = answer.putArray("partitions");
        Map<Integer, Double> lag = meters.byPartition("millrace.queue.lag");
        Map<Integer, Double> pending = meters.byPartition("millrace.queue.pending");
        Map<Integer, Double> inflight = meters.byPartition("millrace.queue.inflight");
        Map<Integer, Double> seq = meters.byPartition("millrace.audit.seq");
        for (int partition : new TreeSet<>(pending.keySet())) {
            ObjectNode row = partitions.addObject().put("partition", partition);
            put(row, "lag", lag.get(partition));
            put(row, "pending", pending.get(partition));
            put(row, "inflight", inflight.get(partition));
            put(row, "leaves", seq.get(partition));
        }
        answer.set("integrity", integrity());
        ArrayNode alarms = answer.putArray("alarms");
        view.alarms().forEach(alarm -> alarms.add(alarm(alarm)));
        return HttpDoor.Answer.json(200, answer.toString());
    }

    private static ArrayNode point(Samples.Point point) {
        ArrayNode values = NODES.arrayNode().add(point.timeMs());
        for (double value : new double[] {
            point.promptsPerSecond(), point.inputPerSecond(), point.outputPerSecond(), point.firstTokenP50(), point.firstTokenP99(),
            point.requestP50(), point.requestP99(), point.inflight(), point.pending(), point.lag(), point.kvUsed(), point.cachedShare(),
            point.batch()
        }) {
            if (Double.isFinite(value)) {
                values.add(Math.round(value * 1e5) / 1e5);
            } else {
                values.addNull();
            }
        }
        return values;
    }

    private ObjectNode integrity() {
        ObjectNode integrity = NODES.objectNode();
        integrity.put("mode", meters.label("millrace.integrity.verify.mode", "mode"));
        put(integrity, "admitting", meters.gauge("millrace.integrity.admitting"));
        put(integrity, "refused", meters.gauge("millrace.integrity.refused"));
        put(integrity, "problems", meters.gauge("millrace.integrity.verify.problems"));
        put(integrity, "scrubAge", meters.gauge("millrace.integrity.scrub.age.seconds"));
        put(integrity, "scrubPasses", meters.counter("millrace.integrity.scrub.passes"));
        put(integrity, "canaryAge", meters.gauge("millrace.integrity.canary.age.seconds"));
        put(integrity, "canaryFailures", meters.counter("millrace.integrity.canary.failures"));
        for (String kind : List.of("weight", "kv", "compute")) {
            put(integrity, kind, meters.counter("millrace.integrity.mismatches", "kind", kind));
        }
        put(integrity, "sealsVerified", meters.counter("millrace.integrity.kv.verified"));
        put(integrity, "recomputed", meters.counter("millrace.integrity.recomputed.steps"));
        put(integrity, "withheld", meters.counter("millrace.integrity.withheld"));
        put(integrity, "suspects", meters.counter("millrace.integrity.suspects"));
        put(integrity, "unsigned", meters.gauge("millrace.audit.unsigned.leaves"));
        put(integrity, "checkpointLag", meters.gauge("millrace.audit.checkpoint.lag.seconds"));
        put(integrity, "checkpointFailures", meters.counter("millrace.audit.checkpoint.failures"));
        put(integrity, "witnessLag", meters.gauge("millrace.audit.witness.lag.seconds"));
        put(integrity, "deadLetters", meters.counter("millrace.dlq.records"));
        put(integrity, "failed", meters.counter("millrace.completions", "result", "failed"));
        return integrity;
    }

    private static void put(ObjectNode node, String name, Double value) {
        if (value == null || !Double.isFinite(value)) {
            node.putNull(name);
        } else {
            node.put(name, value);
        }
    }

    private static ObjectNode alarm(AlarmRecord alarm) {
        return NODES.objectNode().put("time", alarm.getTimeMs()).put("instance", alarm.getInstanceId()).put("kind", alarm.getKind())
                .put("result", alarm.getResult()).put("code", alarm.getCode()).put("detail", alarm.getDetail());
    }

    private HttpDoor.Answer tail(long after) {
        ObjectNode answer = NODES.objectNode();
        ArrayNode rows = answer.putArray("rows");
        view.after(after, MOST_ROWS).forEach(row -> rows.add(row(row)));
        return HttpDoor.Answer.json(200, answer.toString());
    }

    private static ObjectNode row(AuditRow row) {
        AttestationRecord leaf = row.leaf();
        return NODES.objectNode().put("number", row.number()).put("origin", leaf.getLogOrigin()).put("seq", leaf.getSeq())
                .put("time", leaf.getTimeMs()).put("event", leaf.getEvent().name()).put("request", leaf.getRequestId())
                .put("verdict", leaf.getVerdict().name()).put("finish", leaf.getFinish().name()).put("code", leaf.getErrorCode())
                .put("promptTokens", leaf.getPromptTokens()).put("completionTokens", leaf.getCompletionTokens())
                .put("leaf", row.hash().hex()).put("provable", row.provable());
    }

    private HttpDoor.Answer proof(String origin, long seq) {
        Optional<AuditTailView.Proven> found = view.prove(origin, seq);
        if (found.isEmpty()) {
            return HttpDoor.Answer.json(404, "{\"error\":\"the console does not keep this leaf any more: millrace audit prove has it\"}");
        }
        AuditRow row = found.get().row();
        ObjectNode answer = NODES.objectNode().put("origin", origin).put("seq", seq).put("provable", row.provable())
                .put("fingerprint", row.fingerprint().hex()).put("body", Base64.getEncoder().encodeToString(row.body()));
        found.get().head().ifPresent(head -> answer.put("size", head.size()).put("note", head.note()));
        found.get().proof().ifPresent(proof -> {
            ArrayNode path = answer.putArray("path");
            proof.path().forEach(hash -> path.add(hash.hex()));
        });
        answer.put("vkey", setup.vkey());
        return HttpDoor.Answer.json(200, answer.toString());
    }

    private HttpDoor.Answer schema(String fingerprint) {
        return view.schema(fingerprint)
                .map(form -> new HttpDoor.Answer(200, "application/json", form, null))
                .orElse(HttpDoor.Answer.json(404, "{\"error\":\"no leaf that is shown was written with this schema\"}"));
    }
}
