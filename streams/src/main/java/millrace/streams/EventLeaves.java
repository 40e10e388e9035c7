package millrace.streams;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import millrace.engine.Device;
import millrace.engine.IntegrityEvent;
import millrace.engine.ModelCard;
import millrace.engine.Sampling;
import millrace.integrity.TreeState;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.AuditVerdict;
import millrace.schemas.SuspectRange;
import org.jspecify.annotations.Nullable;

/// Writes the attestation records of what is no answer: what serves here, and what the engine's checks found out.
final class EventLeaves {
    private static final int MOST_DETAIL = 2_000;

    private final Attestations attestations;
    private final String load;
    private final String build;

    EventLeaves(Attestations attestations, ModelCard card) {
        this.attestations = attestations;
        this.load = load(card, attestations.verifyMode());
        this.build = build(card);
    }

    /// The model as this process loaded it. Every file is hashed while it is read, so the load is always a full one.
    private static String load(ModelCard card, String mode) {
        String problems = card.trust().problems().stream()
                .map(problem -> word(problem.split("[^A-Z0-9_]", 2)[0])).distinct().collect(Collectors.joining(","));
        Device device = card.device();
        return words(
                "model", card.name(), "digest", card.modelDigest(), "root", card.trust().root(), "trust", mode,
                "verified", Boolean.toString(card.trust().verified()), "bundle", card.trust().bundleSha256(),
                "key_hint", card.trust().keyHint(), "problems", problems, "load_verify", "full",
                "block_table", card.blockTableSha256(),
                "backend", card.backend(), "profile", card.profile(), "device", device.name(), "capability", device.capability(),
                "driver", device.driver(), "image", device.imageSha256(), "standin", device.standIn() ? "true" : "");
    }

    private static String build(ModelCard card) {
        String[] parts = card.build().split(" ", 2);
        String[] cache = card.kvFormat().split(" index ", 2);
        return words(
                "version", parts[0], "digest", parts.length > 1 ? parts[1] : "", "backend", card.backend(),
                "profile", card.profile(), "weights", card.weightFormat(), "kv", cache[0],
                "index", cache.length > 1 ? cache[1] : "", "speculation", card.speculation().id(),
                "sampler", Sampling.ALGORITHM, "chat", card.chatFormat(),
                "java", Runtime.version().toString(), "os", System.getProperty("os.name"), "arch", System.getProperty("os.arch"));
    }

    /// @param namesAndValues names that are followed by their values; what has no value is left out
    private static String words(String... namesAndValues) {
        List<String> words = new ArrayList<>();
        for (int i = 0; i < namesAndValues.length; i += 2) {
            if (!namesAndValues[i + 1].isEmpty()) {
                words.add(namesAndValues[i] + "=" + word(namesAndValues[i + 1]));
            }
        }
        return String.join(" ", words);
    }

    private static String word(String value) {
        return value.replaceAll("[^!-~]", "_");
    }

    AttestationRecord modelLoad(TreeState log, long nowMs) {
        return attestations.event(log, AuditEvent.MODEL_LOAD, nowMs, AuditVerdict.OK, load).build();
    }

    AttestationRecord build(TreeState log, long nowMs) {
        return attestations.event(log, AuditEvent.BUILD, nowMs, AuditVerdict.OK, build).build();
    }

    /// The leaf of an event, one for each range of answers that it brings into doubt, and one if there is none.
    ///
    /// @param range null where no step is in doubt
    AttestationRecord of(IntegrityEvent event, LogMemory.@Nullable Range range, TreeState log, long nowMs) {
        AuditEvent kind = switch (event.kind()) {
            case CANARY -> AuditEvent.CANARY;
            case SCRUB -> event.result() == IntegrityEvent.Result.PASSED ? AuditEvent.SCRUB : AuditEvent.FAULT;
            case WEIGHT, KV_PAGE, COMPUTE, MODEL_FILE, META, DEVICE -> AuditEvent.FAULT;
        };
        AuditVerdict verdict = switch (event.result()) {
            case PASSED -> AuditVerdict.OK;
            case REPAIRED -> AuditVerdict.OK_RECOMPUTED;
            case REFUSED -> AuditVerdict.FAILED;
        };
        return attestations.event(log, kind, nowMs, verdict, detail(event, range))
                .setErrorCode(event.code())
                .setSuspect(range == null ? null
                        : new SuspectRange(range.origin(), range.from(), range.to(), event.kind().name()))
                .build();
    }

    private static String detail(IntegrityEvent event, LogMemory.@Nullable Range range) {
        String facts = words(
                "number", Long.toString(event.number()), "kind", event.kind().name(),
                "result", event.result().name().toLowerCase(Locale.ROOT), "at_ms", Long.toString(event.epochMs()),
                "from_step", event.suspectFromStep() == IntegrityEvent.NO_STEP ? "" : Long.toString(event.suspectFromStep()),
                "range", range != null && range.widened() ? "widened" : "");
        String all = event.detail().isEmpty() ? facts : facts + " " + event.detail();
        return all.length() <= MOST_DETAIL ? all : all.substring(0, MOST_DETAIL);
    }
}
