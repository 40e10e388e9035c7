package millrace.streams.cli;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import millrace.integrity.NoteKey;
import millrace.integrity.NoteVerifier;
import millrace.integrity.audit.WitnessPolicy;
import millrace.streams.ServiceConfig;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Option;

/// Whose cosignatures are demanded.
final class AuditWitnessOptions {
    @Option(names = "--witness", paramLabel = "VKEY|FILE",
            description = "Public key of a witness, or a file of such lines. Repeatable. Each log must then have a checkpoint "
                    + "that enough of them cosigned.")
    List<String> witnesses = new ArrayList<>();

    @Option(names = "--quorum", paramLabel = "N", description = "How many witnesses are enough (default: all that are given).")
    @Nullable Integer quorum;

    @Option(names = "--cosignatures-topic", paramLabel = "TOPIC",
            description = "Topic of the cosignatures (default: topics.cosignatures).")
    @Nullable String topic;

    String topic(ServiceConfig config) {
        return topic == null ? config.string("topics.cosignatures") : topic;
    }

    /// The policy; null if no witness is given.
    @Nullable WitnessPolicy policy(ServiceConfig config) throws IOException {
        List<NoteVerifier> keys = AuditLogOptions.keysOf("--witness", NoteKey.Kind.WITNESS, witnesses);
        if (keys.isEmpty()) {
            if (quorum != null) {
                throw new IllegalArgumentException("--quorum: expected --witness too, got none");
            }
            return null;
        }
        return new WitnessPolicy(topic(config), keys, quorum == null ? keys.size() : quorum);
    }
}
