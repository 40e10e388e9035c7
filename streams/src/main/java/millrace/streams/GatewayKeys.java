package millrace.streams;

import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Range;
import org.apache.kafka.common.config.ConfigDef.Type;

/// The keys of `millrace gateway`, beside those of the topics and of the Kafka clients.
final class GatewayKeys {
    private GatewayKeys() {}

    static ConfigDef addTo(ConfigDef definition) {
        return definition
                .define("gateway.host", Type.STRING, "127.0.0.1", new ConfigDef.NonEmptyString(), Importance.MEDIUM,
                        "Address that the gateway binds. It speaks plain HTTP: beyond one machine put a proxy with TLS before it.")
                .define("gateway.port", Type.INT, 8000, Range.between(0, 65_535), Importance.MEDIUM,
                        "Port of the gateway; 0 takes a free one.")
                .define("gateway.api.keys.file", Type.STRING, "", Importance.HIGH,
                        "File of the API keys and their tenants, mode 0600; empty: no key is asked for, and there is no tenant.")
                .define("gateway.models", Type.STRING, "", Importance.LOW,
                        "Names of models that /v1/models lists beside those that have answered, separated by commas.")
                .define("gateway.dir", Type.STRING, "data/gateway", new ConfigDef.NonEmptyString(), Importance.MEDIUM,
                        "Directory of the gateway's uploaded files and batches. Keep it across restarts.")
                .define("gateway.max.concurrent", Type.INT, 512, Range.between(1, 100_000), Importance.MEDIUM,
                        "The most requests that wait for an answer at once; one more is told to come again.")
                .define("gateway.max.body.bytes", Type.INT, 2_000_000, Range.between(1_024, 64 << 20), Importance.MEDIUM,
                        "The largest body of a request in bytes, uploads of files apart.")
                .define("gateway.max.file.bytes", Type.LONG, 209_715_200L, Range.between(1_024L, 1L << 40), Importance.MEDIUM,
                        "The largest file in bytes that may be uploaded for a batch.")
                .define("gateway.timeout.ms", Type.LONG, 600_000L, Range.between(1_000L, 6L * 3_600_000L), Importance.MEDIUM,
                        "How long a request waits for its answer; its prompts carry this as their deadline.");
    }
}
