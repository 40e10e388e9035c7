package millrace.streams.cli;

import java.nio.charset.StandardCharsets;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import millrace.schemas.Control;
import millrace.streams.Cancellation;
import millrace.streams.KafkaClients;
import millrace.streams.ServiceConfig;
import millrace.streams.registry.AvroEncoder;
import millrace.streams.registry.AvroSerdeConfig;
import millrace.streams.registry.SchemaRegistryClient;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/// Cancels one request.
@Command(
        name = "cancel",
        mixinStandardHelpOptions = true,
        description = {
            "Asks the service to end a request. It is answered as every other: by one completion, with finish reason",
            "cancelled and what was generated so far, or with its whole answer where that was finished first. A request",
            "that has ended stays as it is; one that has not come yet ends as soon as it comes."
        },
        footer = {
            "",
            "Examples:",
            "  millrace cancel 7f0c1d2e",
            "  millrace cancel order-17 --tenant acme --session chat-4",
            "",
            "Exit codes: 0 the cancellation is in the topic, 1 it was not accepted, 2 wrong usage."
        })
final class CancelCommand implements Callable<Integer> {
    @Parameters(paramLabel = "ID", description = "The request's id.")
    String requestId = "";

    @Option(names = "--tenant", paramLabel = "NAME", description = "The tenant that has asked, if the prompt names one.")
    @Nullable String tenant;

    @ArgGroup(exclusive = true)
    @Nullable Key key;

    /// What the prompt's record has as its key, where that is not the request's id.
    static final class Key {
        @Option(names = "--session", paramLabel = "ID", description = "The prompt's session, if it has one.")
        @Nullable String session;

        @Option(names = "--key", paramLabel = "TEXT", description = "The key of the prompt's record, if it is another one.")
        @Nullable String text;
    }

    @Mixin
    ClientOptions client = new ClientOptions();

    @Spec
    CommandSpec spec;

    @SuppressWarnings("NullAway.Init") // picocli sets spec
    CancelCommand() {}

    @Override
    public Integer call() throws InterruptedException {
        ServiceConfig config = client.load();
        String topic = config.string("topics.cancels");
        try (SchemaRegistryClient registry = SchemaRegistryClient.open(config.registry());
                KafkaProducer<byte[], byte[]> producer = new KafkaClients(config).producer()) {
            AvroEncoder<Control> encoder =
                    AvroEncoder.open(registry, Control.class, topic + "-value", AvroSerdeConfig.of(config.registry()));
            byte[] value = encoder.encode(Cancellation.of(tenant, requestId, System.currentTimeMillis()));
            RecordMetadata at = producer.send(new ProducerRecord<>(topic, recordKey().getBytes(StandardCharsets.UTF_8), value)).get();
            spec.commandLine().getOut().println("cancellation of " + requestId + " at " + at);
            spec.commandLine().getOut().flush();
            return 0;
        } catch (ExecutionException e) {
            throw new IllegalStateException(
                    "topic " + topic + ": the cancellation was not accepted: " + e.getCause().getMessage(), e);
        }
    }

    private String recordKey() {
        if (key == null) {
            return requestId;
        }
        return key.session != null ? key.session : String.valueOf(key.text);
    }
}
