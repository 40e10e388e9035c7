package millrace.streams;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import millrace.engine.Generation;
import millrace.engine.GenerationListener;
import millrace.engine.GenerationRequest;
import millrace.engine.ModelCard;
import millrace.engine.PreparedPrompt;
import millrace.engine.TextEngine;
import millrace.integrity.NoteVerifier;
import millrace.schemas.AttestationRecord;
import millrace.schemas.Prompt;
import millrace.streams.bench.NoOpEngine;
import millrace.streams.drill.DrillLoad;
import millrace.streams.drill.DrillReport;
import millrace.streams.drill.DrillSettings;
import millrace.streams.registry.AvroDecoder;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.TempDir;

/// Several instances of one application id share its partitions, and hand them over when one of them goes.
@Timeout(value = 3, unit = TimeUnit.MINUTES)
@SuppressWarnings("try") // instances serve while their block is open
class ScaleOutIT {
    private static final Duration PATIENCE = Duration.ofSeconds(60);
    private static final int SESSIONS = 24;

    @TempDir
    private static Path directory;

    @RegisterExtension
    private static final OwnCluster cluster = new OwnCluster();

    private static ServiceConfig config(String name, String instance, Map<String, String> own) {
        Map<String, String> settings = new HashMap<>(cluster.serviceConfig());
        settings.putAll(Map.of(
                "application.id", name, "state.dir", directory.resolve(name).resolve(instance).toString(), "topics.partitions", "2",
                "health.port", "-1", "audit.key.file", directory.resolve(name + ".key").toString()));
        settings.putAll(OwnTopics.of(name));
        settings.putAll(own);
        return ServiceConfig.of(settings);
    }

    private static void sendTurns(ClusterClient client, String turn, List<String> sent) {
        for (int session = 0; session < SESSIONS; session++) {
            String id = "session-" + session + "-" + turn;
            Prompt prompt = Prompt.newBuilder().setRequestId(id).setSessionId("session-" + session).setPrompt("question " + id).build();
            client.sendRaw(PromptKey.of(prompt), client.encode(prompt), new RecordHeaders());
            sent.add(id);
        }
        sent.forEach(id -> client.await(id, PATIENCE));
    }

    /// Who answered each session, by the leaves.
    private static Map<String, Set<String>> instancesBySession(ClusterClient client) {
        AvroDecoder<AttestationRecord> leaves = new AvroDecoder<>(client.registry(), AttestationRecord.class);
        Map<String, Set<String>> by = new TreeMap<>();
        client.readAll("topics.audit").stream().map(record -> leaves.decode(record.value()))
                .filter(leaf -> leaf.getInOffset() >= 0)
                .forEach(leaf -> by.computeIfAbsent(leaf.getRequestId().replaceAll("-[a-z]+$", ""), session -> new TreeSet<>())
                        .add(leaf.getInstanceId()));
        return by;
    }

    @Test
    void sessionsStayWithTheirInstanceThoughOneIsStartedAgain() throws Exception {
        Map<String, String> remain = Map.of("shutdown.leave", "false");
        ServiceConfig one = config("sticky", "one", remain);
        ServiceConfig two = config("sticky", "two", remain);
        List<String> sent = new ArrayList<>();
        try (ServiceInstance first = ServiceInstance.start(one, new NoOpEngine())) {
            try (ClusterClient client = new ClusterClient(one)) {
                try (ServiceInstance second = ServiceInstance.start(two, new NoOpEngine())) {
                    sendTurns(client, "a", sent);
                    assertThat(instancesBySession(client).values()).as("one instance each, and both have work").allMatch(by -> by.size() == 1)
                            .hasSize(SESSIONS);
                    assertThat(instancesBySession(client).values().stream().distinct().toList()).hasSize(2);
                }
                try (ServiceInstance again = ServiceInstance.start(two, new NoOpEngine())) {
                    sendTurns(client, "b", sent);
                    assertThat(instancesBySession(client).values()).allMatch(by -> by.size() == 1);
                }
                client.assertExactlyOnce(sent);
            }
        }
    }

    @Test
    void anInstanceThatIsStoppedGivesItsPartitionsToTheOthersAtOnce() throws Exception {
        Map<String, String> standby = Map.of(GroupProtocol.STANDBYS, "1");
        ServiceConfig one = config("leave", "one", standby);
        try (ServiceInstance first = ServiceInstance.start(one, new NoOpEngine())) {
            ServiceInstance second = ServiceInstance.start(config("leave", "two", standby), new NoOpEngine());
            try (DrillLoad load = DrillLoad.start(one, DrillSettings.of("leave", 40))) {
                ClusterClient.sleep(3_000);
                for (int partition = 0; partition < 2; partition++) {
                    Path store = Path.of("leave", "0_" + partition, "rocksdb", InferenceProcessor.PENDING_STORE);
                    assertThat(directory.resolve("leave").resolve("one").resolve(store)).as("a copy of each store").exists();
                    assertThat(directory.resolve("leave").resolve("two").resolve(store)).exists();
                }
                second.close();
                ClusterClient.sleep(1_000);
                DrillReport report = load.finish(PATIENCE);
                assertThat(report.isWell()).as(report.text()).isTrue();
                assertThat(report.leavesByInstance()).as("both had work").hasSize(2);
                assertThat(report.longestGapMs()).as("below the 45 s of a session, however slow this machine is: %s", report.text())
                        .isLessThan(40_000);
            } finally {
                second.close();
            }
        }
    }

    /// Answers nothing before the gate is opened.
    private static final class GatedEngine implements TextEngine {
        private record Waiting(PreparedPrompt prompt, GenerationListener listener) {}

        private final NoOpEngine sound = new NoOpEngine();
        private final List<Waiting> waiting = new ArrayList<>();
        private boolean open;

        @Override
        public ModelCard card() {
            return sound.card();
        }

        @Override
        public PreparedPrompt prepare(GenerationRequest request) {
            return sound.prepare(request);
        }

        @Override
        public synchronized Generation submit(PreparedPrompt prompt, GenerationListener listener) {
            if (open) {
                return sound.submit(prompt, listener);
            }
            waiting.add(new Waiting(prompt, listener));
            return () -> {};
        }

        synchronized void open() {
            open = true;
            waiting.forEach(job -> sound.submit(job.prompt(), job.listener()));
            waiting.clear();
        }

        @Override
        public synchronized int load() {
            return waiting.size() + sound.load();
        }

        @Override
        public void close() {
            sound.close();
        }
    }

    @Test
    void theStreamsProtocolHoldsPartitionsBackAndHandsThemOver() throws Exception {
        Map<String, String> streams = Map.of(GroupProtocol.KEY, GroupProtocol.STREAMS, "inflight.max", "4", "shutdown.drain.ms", "200");
        ServiceConfig one = config("streams", "one", streams);
        List<String> sent = IntStream.range(0, 400).mapToObj(i -> "gated-" + i).toList();
        GatedEngine engine = new GatedEngine();
        try (ClusterClient client = connect(one)) {
            try (ServiceInstance first = ServiceInstance.start(one, engine)) {
                sent.forEach(id -> client.send(Prompt.newBuilder().setRequestId(id).setPrompt("question " + id).build()));
                awaitLoad(engine, 4);
                ClusterClient.sleep(1_500);
                assertThat(engine.load()).as("inflight.max, and what was polled and buffered before the hold")
                        .isBetween(4, 4 + 64 + 2 * 64);
            }
            // Nothing was answered: the next instance resumes what the first had taken in, and takes in the rest.
            GatedEngine other = new GatedEngine();
            other.open();
            try (ServiceInstance second = ServiceInstance.start(config("streams", "two", streams), other)) {
                sent.forEach(id -> client.await(id, PATIENCE));
                client.assertExactlyOnce(sent);
                ClusterClient.sleep(1_500);
                assertThat(client.audit(NoteVerifier.parse(second.service().vkey())).word()).isEqualTo("ok");
            }
        }
    }

    private static ClusterClient connect(ServiceConfig config) {
        try (org.apache.kafka.clients.admin.Admin admin = new KafkaClients(config).admin()) {
            new Topics(config).ensure(admin);
        }
        return new ClusterClient(config);
    }

    private static void awaitLoad(TextEngine engine, int load) {
        long until = System.nanoTime() + PATIENCE.toNanos();
        while (engine.load() < load) {
            assertThat(System.nanoTime()).as("load of %d", engine.load()).isLessThan(until);
            ClusterClient.sleep(10);
        }
    }

    @Test
    void refusesWhatTheStreamsProtocolCannotDo() {
        Map<String, String> streams = Map.of(GroupProtocol.KEY, GroupProtocol.STREAMS);
        assertThatThrownBy(() -> config("refused", "one", with(streams, GroupProtocol.STANDBYS, "1")))
                .isInstanceOf(ConfigException.class)
                .hasMessage("config key \"standby.replicas\": expected none with group.protocol=streams, where the broker decides; set "
                        + "streams.num.standby.replicas of the group refused instead (kafka-configs --entity-type groups), or take "
                        + "group.protocol=classic");
        assertThatThrownBy(() -> config("refused", "one", with(streams, "kafka.main.consumer.session.timeout.ms", "6000")))
                .hasMessageContaining("kafka.main.consumer.session.timeout.ms").hasMessageContaining("streams.session.timeout.ms");
        assertThatThrownBy(() -> config("refused", "one", with(streams, "kafka.group.instance.id", "me")))
                .hasMessageContaining("kafka.group.instance.id").hasMessageContaining("leave it out");
        assertThatThrownBy(() -> config("refused", "one", Map.of("kafka.group.protocol", "streams"))).hasMessageContaining("CONFIG_REFUSED");
    }

    private static Map<String, String> with(Map<String, String> all, String key, String value) {
        Map<String, String> more = new HashMap<>(all);
        more.put(key, value);
        return more;
    }
}
