package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import millrace.engine.DamagedWeights;
import millrace.engine.Engine;
import millrace.integrity.NoteVerifier;
import millrace.integrity.WireReader;
import millrace.schemas.AlarmRecord;
import millrace.schemas.AttestationRecord;
import millrace.schemas.AuditEvent;
import millrace.schemas.AuditVerdict;
import millrace.schemas.Completion;
import millrace.schemas.Prompt;
import millrace.schemas.Sampling;
import millrace.schemas.Schemas;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.TempDir;

/// Weights are damaged under a service with a real model: no answer that is handed on afterwards is wrong, and those that
/// were out by then are named, exactly.
@Timeout(value = 3, unit = TimeUnit.MINUTES)
class DamagedWeightsIT {
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final int PART = 24;

    @TempDir
    private static Path directory;

    @RegisterExtension
    private static final OwnCluster cluster = new OwnCluster();

    private static ServiceConfig config(String name) {
        Map<String, String> settings = new HashMap<>(cluster.serviceConfig());
        settings.putAll(Map.of("application.id", name, "state.dir", directory.resolve(name).toString(), "topics.partitions", "2",
                "health.port", "-1", "engine.model", "glm-tiny", "engine.threads", "2", "engine.kv.bytes", "16000000",
                "integrity.scrub.interval", "0"));
        settings.putAll(OwnTopics.of(name));
        return ServiceConfig.of(settings);
    }

    /// Each with its own seed, so that its answer does not depend on where it stands in its topic.
    private static Prompt prompt(int i) {
        return Prompt.newBuilder().setRequestId("p-" + i).setPrompt("Question " + i + ": what is " + i + " + 7?")
                .setReturnTokenIds(true)
                .setSampling(Sampling.newBuilder().setTemperature(i % 2).setSeed((long) i).setMaxTokens(40).build()).build();
    }

    private static InferenceService open(ServiceConfig config, AtomicReference<Engine> engine) {
        return InferenceService.start(config, c -> {
            engine.set(Engine.open(c.engine(Models.directory("glm-tiny", directory.resolve("models")))));
            return engine.get();
        }, true, line -> {});
    }

    private static void send(ClusterClient client, int from) {
        IntStream.range(from, from + PART).forEach(i -> client.send(prompt(i)));
    }

    private static Map<Integer, Completion> await(ClusterClient client, int from) {
        Map<Integer, Completion> answers = new TreeMap<>();
        IntStream.range(from, from + PART).forEach(i -> answers.put(i, client.await("p-" + i, PATIENCE)));
        return answers;
    }

    @Test
    void namesWhatWasOutAndHandsOnNothingWrong() throws Exception {
        Map<Integer, Completion> sound = new TreeMap<>();
        AtomicReference<Engine> engine = new AtomicReference<>();
        ServiceConfig first = config("sound");
        try (InferenceService service = open(first, engine); ClusterClient client = new ClusterClient(first)) {
            assertThat(service.card().blockTableSha256()).isNotEmpty();
            for (int from = 0; from < 3 * PART; from += PART) {
                send(client, from);
            }
            for (int from = 0; from < 3 * PART; from += PART) {
                sound.putAll(await(client, from));
            }
        }
        ServiceConfig second = config("damaged");
        try (InferenceService service = open(second, engine); ClusterClient client = new ClusterClient(second)) {
            send(client, 0);
            Map<Integer, Completion> before = await(client, 0);
            assertThat(DamagedWeights.scrub(engine.get())).isTrue();
            DamagedWeights.ruin(engine.get(), "lm_head.weight");
            send(client, PART);
            Map<Integer, Completion> between = await(client, PART);
            send(client, 2 * PART);
            while (engine.get().load() < 4) {
                ClusterClient.sleep(1);
            }
            assertThat(DamagedWeights.scrub(engine.get())).isFalse();
            Map<Integer, Completion> after = await(client, 2 * PART);
            ClusterClient.sleep(1_500);

            List<AttestationRecord> leaves = leaves(client);
            before.forEach((i, answer) -> {
                assertThat(answer.getTokenIds()).as("p-%d", i).isEqualTo(sound.get(i).getTokenIds());
                assertThat(isSuspect(answer, leaves)).as("p-%d was before the last good check", i).isFalse();
            });
            between.forEach((i, answer) -> assertThat(isSuspect(answer, leaves)).as("p-%d", i).isTrue());
            assertThat(between).as("the damage does change answers")
                    .anySatisfy((i, answer) -> assertThat(answer.getTokenIds()).isNotEqualTo(sound.get(i).getTokenIds()));
            after.forEach((i, answer) -> assertThat(answer.getTokenIds().equals(sound.get(i).getTokenIds()) || isSuspect(answer, leaves))
                    .as("p-%d is right, or named", i).isTrue());
            assertThat(after.values()).as("computed again").anyMatch(answer -> !isSuspect(answer, leaves));
            assertThat(leaves).filteredOn(leaf -> leaf.getEvent() == AuditEvent.INFERENCE)
                    .anyMatch(leaf -> leaf.getVerdict() == AuditVerdict.OK_RECOMPUTED);
            assertThat(alarms(client)).extracting(AlarmRecord::getCode).contains("WEIGHT_BLOCK");
            assertThat(client.audit(NoteVerifier.parse(service.vkey())).word()).isEqualTo("ok");
        }
    }

    private static boolean isSuspect(Completion answer, List<AttestationRecord> leaves) {
        return leaves.stream().map(AttestationRecord::getSuspect).filter(Objects::nonNull)
                .anyMatch(range -> range.getOrigin().equals(answer.getAudit().getOrigin())
                        && range.getFromSeq() <= answer.getAudit().getSeq() && answer.getAudit().getSeq() <= range.getToSeq());
    }

    private static List<AttestationRecord> leaves(ClusterClient client) {
        WireReader<AttestationRecord> reader = new WireReader<>(Schemas.ATTESTATION, null);
        return client.readAll("topics.audit").stream().map(record -> reader.read(record.value()).record()).toList();
    }

    private static List<AlarmRecord> alarms(ClusterClient client) {
        WireReader<AlarmRecord> reader = new WireReader<>(Schemas.ALARM, null);
        return client.readAll("topics.faults").stream().map(record -> reader.read(record.value()).record()).toList();
    }
}
