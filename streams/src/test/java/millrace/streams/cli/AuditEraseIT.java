package millrace.streams.cli;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import millrace.integrity.Commitment;
import millrace.integrity.WireReader;
import millrace.schemas.Completion;
import millrace.schemas.Prompt;
import millrace.schemas.Schemas;
import millrace.streams.InferenceService;
import millrace.streams.KafkaClients;
import millrace.streams.ServiceConfig;
import millrace.streams.bench.NoOpEngine;
import millrace.streams.embedded.EmbeddedCluster;
import millrace.streams.registry.AvroEncoder;
import millrace.streams.registry.AvroSerdeConfig;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import picocli.CommandLine;

/// An operator erases a request and a tenant of a running service; what was erased cannot be opened, the rest can, and the log
/// verifies throughout.
@Timeout(value = 4, unit = TimeUnit.MINUTES)
class AuditEraseIT {
    @TempDir
    private Path directory;

    private ServiceConfig config;
    private String vkey = "";

    private record Result(int code, String out, String err) {}

    private Result run(String... arguments) {
        List<String> all = new ArrayList<>(List.of("audit"));
        all.addAll(List.of(arguments));
        all.addAll(List.of("--bootstrap", config.kafka().get("bootstrap.servers"), "--registry",
                config.registry().get("schema.registry.url"), "-D", "application.id=erase"));
        StringWriter out = new StringWriter();
        StringWriter err = new StringWriter();
        int code = new CommandLine(new Main()).setOut(new PrintWriter(out)).setErr(new PrintWriter(err))
                .execute(all.toArray(String[]::new));
        return new Result(code, out.toString(), err.toString());
    }

    private Map<String, Completion> completions() {
        Map<String, Completion> found = new HashMap<>();
        WireReader<Completion> decoder = new WireReader<>(Schemas.COMPLETION, null);
        TopicScan.read(new KafkaClients(config), config.string("topics.completions"), p -> true, record -> {
            Completion completion = decoder.read(record.value()).record();
            found.put(completion.getRequestId(), completion);
        });
        return found;
    }

    private void ask(AvroEncoder<Prompt> encoder, String id, String tenant) throws Exception {
        String topic = config.string("topics.prompts");
        try (KafkaProducer<byte[], byte[]> producer = new KafkaClients(config).producer()) {
            Prompt prompt = Prompt.newBuilder().setRequestId(id).setTenant(tenant).setPrompt("question " + id).build();
            producer.send(new ProducerRecord<>(topic, id.getBytes(StandardCharsets.UTF_8), encoder.encode(prompt))).get();
        }
        long until = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        while (!completions().containsKey(id) && System.nanoTime() < until) {
            Thread.sleep(100);
        }
        assertThat(completions()).containsKey(id);
    }

    private void verifies() throws Exception {
        Thread.sleep(1_500); // the next checkpoint
        Result verified = run("verify", "--key", vkey, "--json");
        assertThat(verified.code()).as(verified.out() + verified.err()).isZero();
    }

    @Test
    void erasesARequestAndATenant() throws Exception {
        try (EmbeddedCluster cluster = EmbeddedCluster.ephemeral()) {
            Map<String, String> settings = new HashMap<>(cluster.serviceConfig());
            settings.putAll(Map.of("application.id", "erase", "state.dir", directory.toString(), "topics.partitions", "2", "health.port", "-1"));
            config = ServiceConfig.of(settings);
            try (InferenceService service = InferenceService.start(config, c -> new NoOpEngine(), true, line -> {});
                    SchemaRegistryClient registry = SchemaRegistryClient.open(config.registry())) {
                vkey = service.vkey();
                AvroEncoder<Prompt> encoder = AvroEncoder.open(
                        registry, Prompt.class, config.string("topics.prompts") + "-value", AvroSerdeConfig.of(config.registry()));
                for (String id : List.of("a", "b", "c")) {
                    ask(encoder, id, id.equals("c") ? "other" : "acme");
                }
                Completion a = completions().get("a");
                Result salt = salt("a");
                assertThat(salt.code()).as(salt.err()).isZero();
                assertThat(salt.out().strip()).isEqualTo(HexFormat.of().formatHex(a.getSalt().array()));
                assertThat(Commitment.opens(Commitment.completion(a.getSalt().array(), a.getText()), Commitment.Kind.COMPLETION,
                        HexFormat.of().parseHex(salt.out().strip()), a.getText().getBytes(StandardCharsets.UTF_8))).isTrue();

                Result asked = run("erase", "--request-id", "a");
                assertThat(asked.code()).isEqualTo(3);
                assertThat(asked.err()).contains("nothing was erased; this cannot be undone: give --yes to do it");
                assertThat(salt("a").code()).isZero();

                Result erased = run("erase", "--request-id", "a", "--yes");
                assertThat(erased.code()).as(erased.err()).isZero();
                assertThat(erased.out()).matches("done: leaf \\d+ of millrace\\.local/.+\\R");
                assertThat(salt("a").code()).isEqualTo(2);
                assertThat(salt("b").code()).isZero();
                verifies();

                Result tenant = run("erase", "--tenant", "acme", "--yes", "--json");
                assertThat(tenant.code()).as(tenant.err()).isZero();
                assertThat(tenant.out()).contains("\"verdict\":\"ok\"").contains("\"event\":\"RETRACT\"");
                assertThat(salt("b").code()).as("its key is gone").isEqualTo(2);
                assertThat(salt("b").err()).contains("the key of that tenant is gone: it was erased");
                assertThat(salt("c").code()).as("others keep theirs").isZero();
                verifies();
                retracts(a);
                verifies();
                assertThat(run("verify", "--key", vkey).out()).contains("ranges of leaves are withdrawn or in doubt:");
            }
        }
    }

    private Result salt(String id) {
        return run("salt", "--request-id", id, "--key", directory.resolve("audit.key").toString());
    }

    private void retracts(Completion a) {
        String partition = Integer.toString(a.getAudit().getPartition());
        String seq = Long.toString(a.getAudit().getSeq());
        Result done = run("retract", "--partition", partition, "--from", seq, "--reason", "OPERATOR");
        assertThat(done.code()).as(done.err()).isZero();
        Result refused = run("retract", "--partition", partition, "--from", "99999", "--reason", "OPERATOR");
        assertThat(refused.code()).isEqualTo(1);
        assertThat(refused.out()).startsWith("REFUSED: CONTROL_RANGE: leaf ");
        assertThat(run("retract", "--partition", partition, "--reason", "OPERATOR").code()).as("neither").isEqualTo(3);
        Result epoch = run("retract", "--partition", partition, "--new-epoch", "--reason", "OPERATOR");
        assertThat(epoch.code()).as(epoch.err()).isZero();
        assertThat(run("erase", "--request-id", "nobody", "--yes").code()).isEqualTo(2);
    }
}
